"""Render a `Report` as one HTML page that needs no network.

Templates escape all text by default. The script holds no data. A content security policy admits only the
hashes of this style sheet and script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from robustcf.report import figures, words
from robustcf.report.content import SMALL, Population, Report
from robustcf.report.differences import figure
from robustcf.report.doubts import not_proved
from robustcf.report.verdict import verdict, warnings
from robustcf.show import no_way

PAGE = 5  # customers shown at a time
WITHOUT_SCRIPT = ".card[hidden] { display: block; } .controls { display: none; }"  # shows all customers


def render(report: Report) -> str:
    """Return the page as text.

    Parameters
    ----------
    report : Report
        Plain values; the page shows their text escaped.

    Returns
    -------
    str
        A complete HTML document.
    """
    return rendered(
        "page.html.j2",
        report=report,
        figures=[_figures(k, p) for k, p in enumerate(report.populations)],
        survival=figures.survival("survival", report.since.survival) if report.since else None,
        verdicts=[verdict(p, report.kind == "sweep") for p in report.populations],
        warnings=[warnings(p) for p in report.populations],
        doubts=not_proved(report),
        page_size=PAGE,
        plain=WITHOUT_SCRIPT,
    )


def rendered(template: str, **values: Any) -> str:
    """Return a page made from a template of this folder, with its style, script and security policy."""
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)} {_hash(WITHOUT_SCRIPT)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    made = _environment().get_template(template)
    return made.render(style=style, script=script, policy=policy, **values)


def _figures(number: int, population: Population) -> dict[str, list[figures.Figure]]:
    """Return the figures of one population by section."""
    p, key = population, f"p{number}"
    asked = [o for o in (p.any, p.strict) if o is not None]
    price: list[figures.Figure | None] = []
    for k, scenario in enumerate(p.scenarios):
        price.append(figures.price(f"{key}-price-{k}", p.methods, scenario))
        price.append(figures.calibration(f"{key}-calibration-{k}", p.methods, scenario))
    return {
        "outcomes": _there([figures.outcomes(f"{key}-outcomes", asked)] if p.denied else []),
        "price": _there(price or [figures.distances(f"{key}-distance", p.methods)]),
        "levers": _there([figures.levers(f"{key}-levers", p), figures.changed(f"{key}-changed", p.methods)]),
        "cohorts": _there([figures.cohorts(f"{key}-cohort-{k}", p, c) for k, c in enumerate(p.cohorts)]),
        "differences": _differences(key, p),
    }


def _differences(key: str, population: Population) -> list[figures.Figure]:
    found = population.differences
    if found is None:
        return []
    return _there([figure(f"{key}-gaps-{k}", found, cohort) for k, cohort in enumerate(found.cohorts)])


def _there(made: Sequence[figures.Figure | None]) -> list[figures.Figure]:
    return [f for f in made if f is not None]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("robustcf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "count", "seconds", "status"):
        environment.filters[name] = getattr(words, name)
    for name in ("share", "share_of", "with_interval"):
        environment.filters[name] = _unbroken(getattr(words, name))
    environment.globals.update(small=SMALL, no_way=no_way)
    return environment


def _unbroken(write: Callable[..., str]) -> Callable[..., str]:
    """Forbid line breaks inside a number or an interval, but allow one before an interval."""

    def written(*arguments: Any) -> str:
        return write(*arguments).replace(" ", "\u00a0").replace("\u00a0(", " (")

    return written


@cache
def _asset(name: str) -> str:
    """Read a style sheet or script; it is inserted unescaped, so it must not close its element."""
    text = files("robustcf.report").joinpath("templates", name).read_text(encoding="utf-8")
    if "</" in text:
        raise ValueError(f"{name}: contains '</', which would close its element")
    return text


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
