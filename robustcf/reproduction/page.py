"""Write the results page: runs, comparison with the paper, tests, proofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from robustcf.methods.registry import title_of
from robustcf.reproduction import targets
from robustcf.reproduction.markdown import figure_link, markdown, percent, points
from robustcf.reproduction.material import Material
from robustcf.reproduction.page_end import beyond_the_paper, what_is_proved

DOMINATED = """A benchmark's setting is *dominated* if some Direct- or Robust-SAA setting has no larger mean
distance and no lower validity, and is strictly better in one of them. There are few settings, so each
benchmark is also compared with mixtures of them. The *front* is the best validity at the benchmark's mean
distance that one robust setting, the naive point (τ = 1/2, where the robust settings begin) or a mixture of
two of these can reach. In a mixture, some customers get the points of one setting and the others those of
the other. The margin is the front's validity minus the benchmark's, with a bootstrap interval over
simulations."""
ROUNDING = 1e-9
LABELS = tuple(targets.label_of(*family) for family in targets.FAMILIES)


def page(material: Material, figures: Sequence[str]) -> str:
    """Return the page in Markdown; it links the figures in `figures/`."""
    parts = [
        "# Reproduction of the paper",
        _what_was_run(material),
        _datasets(material),
        _naive(material, figures),
        _targets(material, figures),
        _pareto(material, figures),
        _pictures(figures),
        beyond_the_paper(material, figures),
        what_is_proved(material),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _what_was_run(material: Material) -> str:
    lines = []
    for name, (title, source) in material.sources.items():
        own = material.rows[material.rows["experiment"] == name]
        if own.empty:
            continue
        counts = own.groupby("dataset")["simulation"].nunique()
        wall = [s for (e, _), s in material.seconds.items() if e == name]
        lines.append(
            {
                "experiment": f"`{name}`",
                "what": title,
                "in the paper": source,
                "data sets": len(counts),
                "simulations": _span(counts) + f" of {material.planned[name]}",
                "explanations": f"{len(own):,}",
                "wall time": f"{sum(wall) / 60:.1f} min" if wall else "–",
            }
        )
    total = sum(material.seconds.values()) / 60
    words = f"The total is {total:.0f} minutes; the times of parallel sweeps are added up."
    return f"{markdown(lines)}\n\n{words}" if lines else "No experiment has been run."


def _span(counts: pd.Series) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def _datasets(material: Material) -> str:
    columns = ["n", "d", "binary", "categorical", "discrete", "continuous"]
    lines = []
    for row in material.datasets.to_dict("records"):
        printed = material.paper.datasets.get(row["dataset"])
        line: dict[str, Any] = {"data set": row["dataset"]}
        for k, column in enumerate(columns):
            differs = printed is not None and printed[k] != row[column]
            line[column] = f"**{row[column]}** (paper {printed[k]})" if differs and printed else row[column]
        lines.append(line)
    return f"## Data sets (Table 2, recomputed)\n\n{markdown(lines)}"


def _naive(material: Material, figures: Sequence[str]) -> str:
    table = material.beside
    if table.empty:
        return ""
    parts = ["## Naive explanations (Tables 1 and 3)"]
    for n_trees, own in table.groupby("n_trees"):
        lines = [
            {
                "data set": r["dataset"],
                "simulations": r["simulations"],
                "ours": f"{100 * r['ours']:.1f}",
                "paper": percent(r["paper"]),
                "difference (95 %)": points(r["difference"], r["low"], r["high"]),
                "contains 0": "yes" if r["agrees"] else "**no**",
            }
            for r in own.to_dict("records")
        ]
        agree = int(own["agrees"].sum())
        parts.append(
            f"N = {n_trees}, validity in %: the difference's interval contains 0 on {agree} of {len(own)}."
        )
        parts.append(markdown(lines))
    parts.append(figure_link("naive", "ours less the paper's", figures))
    parts.append(_their_draw(material.their_draw))
    return "\n\n".join(p for p in parts if p)


def _their_draw(table: pd.DataFrame) -> str:
    """Return the tables for the authors' own rows and forests."""
    lines = [
        {
            "N": r["n_trees"],
            "data set": r["dataset"],
            "rows": r["rows"],
            "ours": f"{100 * r['ours']:.1f}",
            "paper": percent(r["paper"]),
            "rows with ties": percent(r["tied"]) + " %",
            "other choices among ties give": f"{100 * r['least']:.1f} to {100 * r['most']:.1f}",
            "": _verdict(r),
        }
        for r in table.to_dict("records")
    ]
    words = "The next table uses the rows, column order and seeds of the authors' published script (validity"
    words += " in %). If several points are equally near, a solver may return any of them. The last range is"
    words += " the validity with the worst and with the best of the points found:"
    return f"{words}\n\n{markdown(lines)}" if lines else ""


def _verdict(row: Mapping[Any, Any]) -> str:
    if not row["whole"]:
        return "only some of their rows"
    return "equal, to rounding" if row["equal"] else "ties can explain it" if row["within"] else "differs"


def _targets(material: Material, figures: Sequence[str]) -> str:
    if material.targets.empty:
        return ""
    found = targets.claims(material.targets, material.paper)
    parts = [
        "## Do Direct-SAA and Robust-SAA reach 1 − α? (Figures 3, 9 and 10)",
        "The tables list the levels 1 − α at which validity is *significantly* below its target (one-sided, "
        "clustered by simulation, Holm's correction over all cells of the experiment, no verdict with fewer "
        f"than {targets.FEWEST} simulations). Brackets: levels at which it is below, but not significantly.",
    ]
    for name, own in found.groupby("experiment", sort=False):
        lines = []
        for row in own.to_dict("records"):
            line = {"data set": row["dataset"], "paper, Direct-SAA": row["paper"]}
            for label in LABELS:
                if row[f"{label} tested"]:
                    line[label] = _levels(row[label], row[f"{label} below"])
            lines.append(line)
        claim = material.paper.claim(str(name))
        parts += [
            f"### {material.sources[str(name)][0]}",
            f"The paper ({claim.source}): {claim.said}" if claim else "",
            markdown(lines),
            _together(material.together[material.together["experiment"] == name]),
            figure_link(f"validity-{name}", "validity over the target", figures),
        ]
    return "\n\n".join(p for p in parts if p)


def _together(table: pd.DataFrame) -> str:
    lines = []
    for dataset, own in table.groupby("dataset", sort=False):
        line: dict[str, Any] = {"data set": dataset}
        for row in own.to_dict("records"):
            found = points(row["over"], row["low"], row["high"])
            line[row["label"]] = f"**{found}**" if row["missed"] else found
        lines.append(line)
    words = "Validity minus its target in points, mean over all levels (95 %, Student's t, over simulations);"
    return f"{words} bold if significantly below 0 (one-sided, Holm).\n\n{markdown(lines)}"


def _levels(missed: Sequence[float], below: Sequence[float]) -> str:
    merely = [f"{level:g}" for level in sorted(round(b, 4) for b in set(below) - set(missed))]
    shown = ", ".join(f"**{round(level, 4):g}**" for level in sorted(missed)) or "none"
    return f"{shown} ({', '.join(merely)})" if merely else shown


def _pareto(material: Material, figures: Sequence[str]) -> str:
    lines = []
    table = material.dominance
    for (dataset, method), own in table.groupby(["dataset", "method"], sort=False) if len(table) else ():
        worst = own.sort_values("margin").iloc[0]  # NaN last
        lines.append(
            {
                "data set": dataset,
                "benchmark": title_of(str(method), None, None, None),
                "rows": int(own["rows"].iloc[0]),
                "settings dominated": f"{int(own['dominated'].sum())} of {len(own)}",
                "not above the front": f"{int((own['margin'] > -ROUNDING).sum())} of {len(own)}",
                "median margin, points": _margin(own["margin"].median()),
                "least margin (95 %)": _margin(worst["margin"], worst["margin_low"], worst["margin_high"]),
            }
        )
    figure = figure_link("pareto", "validity over distance", figures)
    if not lines and not figure:
        return ""
    head = "## Distance and validity on identical rows (Figure 4)"
    return "\n\n".join(p for p in (head, DOMINATED if lines else "", markdown(lines), figure) if p)


def _margin(value: float, low: float = math.nan, high: float = math.nan) -> str:
    return "–" if pd.isna(value) else points(value, low, high)


def _pictures(figures: Sequence[str]) -> str:
    pictures: list[tuple[str, str, Callable[[str], bool]]] = [
        ("## Thresholds (Figure 1)", "p* over the target and the size", lambda n: n == "thresholds"),
        ("## Features changed (Figure 5)", "features changed", lambda n: n == "features-changed"),
        ("## One row at rising targets (Figures 2, 7, 8)", "a path", lambda n: n.startswith("trajectory-")),
        ("## Importance beside change (Figures 11, 12)", "importance", lambda n: n == "importance"),
        (
            "## Computation times (Figure 6)",
            "seconds per explanation; a method's grid is solved together and its time divided evenly",
            lambda n: n == "times",
        ),
    ]
    parts = []
    for title, words, fits in pictures:
        own = [figure_link(name, words, figures) for name in figures if fits(name)]
        parts += [title, *own] if own else []
    return "\n\n".join(parts)
