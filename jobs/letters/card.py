"""A section for the model's file (a model card) about an audit, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robustcf.methods.registry import title_of
from robustcf.support.tolerances import TIE_MARGIN

from ..inputs.errors import BadInput
from ..inputs.secrets import without_secrets
from ..run.folder import RunFolder, require_run
from ..run.reader import read_shard

LIMITS = (
    "The figures describe this model, this table of customers and this schema, and nothing else.",
    "The advice shows what the model rewards. It does not show causes.",
    "`optimal` and `no_recourse` are proved. `feasible` and `timeout` rows reached their time limit.",
    "Validity is measured on models that were retrained with other seeds, conditional on the explained "
    "model. It says nothing about models that are trained on other data, unless a scenario says so.",
    f"A soft score within {TIE_MARGIN:g} of the cut-off does not count as a change of the decision.",
)
HASHES = ("config_hash", "forest_hash", "schema_hash", "data_hash", "other_hash")


def card(address: str) -> str:
    """Return the section for a finished run."""
    run, manifest = require_run(address)
    if manifest.get("state") != "complete":
        raise BadInput(f"{run.shown}: the run is not complete")
    return "\n".join(_lines(run, manifest)).rstrip() + "\n"


def _lines(run: RunFolder, manifest: Mapping[str, Any]) -> Iterator[str]:
    config, counts = manifest["config"], manifest["counts"]
    yield "## Counterfactual audit"
    yield ""
    version = manifest["versions"].get("robustcf", "unknown")
    yield (
        f"An audit by robustcf {version}. For each rejected customer it "
        "looks for the nearest allowed change that changes the decision, and tests it on retrained models."
    )
    yield from _section("What was audited", _subject(manifest))
    yield from _section("Outcomes", (f"{status}: {n:,} rows" for status, n in counts.items()))
    yield ""
    yield "### Methods and figures"
    yield ""
    yield "| method | scenario | rows | with a change | proved none | validity | mean distance |"
    yield "|---|---|---|---|---|---|---|"
    for line in read_shard(run, "summary", "summary.parquet").to_pylist():
        if not line["cohort"]:
            yield _figures(line)
    yield ""
    yield f"Validity: {manifest.get('validation', 'not measured')}. Intervals are 95 % intervals."
    yield from _section("Limits", LIMITS)
    yield from _section("Settings", _settings(config))
    yield from _section("Seeds", _seeds(manifest))
    yield from _section("Versions", (f"{name} {found}" for name, found in manifest["versions"].items()))
    stored = [f"{name}: `{manifest[name]}`" for name in HASHES if isinstance(manifest.get(name), str)]
    for name, value in (manifest.get("training_hash") or {}).items():
        stored.append(f"training rows ({name}): `{value}`")
    yield from _section("Hashes", stored)


def _section(title: str, items: Any) -> Iterator[str]:
    found = list(items)
    if found:
        yield from ("", f"### {title}", "", *(f"- {item}" for item in found))


def _subject(manifest: Mapping[str, Any]) -> Iterator[str]:
    config, plan = manifest["config"], manifest.get("plan") or {}
    model = config.get("model") or {}
    if model:
        source = model.get("file") or model.get("forest") or "unknown"
        yield f"Model: `{without_secrets(str(source))}`"
        yield f"Favourable decision: {model.get('favourable')}"
        if model.get("cutoff") is not None:
            yield f"Cut-off: {model['cutoff']}"
    if plan:
        yield f"Customers: {plan.get('rows', 0):,}"
        yield f"Rejected: {plan.get('denied', 0):,}"
        yield f"Not readable: {plan.get('invalid', 0):,}"


def _figures(line: Mapping[str, Any]) -> str:
    title = title_of(line["method"], line["alpha"], line["beta"], line["parameter"])
    low, high = line["validity_low"], line["validity_high"]
    validity = "not measured" if line["validity"] is None else f"{line['validity']:.1%}"
    if line["validity"] is not None and low is not None and high is not None:
        validity += f" ({low:.1%} to {high:.1%})"
    distance = "" if line["distance"] is None else f"{line['distance']:.4f}"
    counts = (f"{line[name]:,}" for name in ("n", "n_reached", "n_no_recourse"))
    return f"| {' | '.join([title, line['scenario'] or 'none', *counts, validity, distance])} |"


def _settings(config: Mapping[str, Any]) -> Iterator[str]:
    solver, validation = config.get("solver") or {}, config.get("validation") or {}
    yield f"Solver: {solver.get('name')}, at most {solver.get('time_limit'):g} s per customer and method"
    scenarios = ", ".join(validation.get("scenarios") or ())
    yield f"Retrained models: {validation.get('forests')} per scenario ({scenarios})"
    if config.get("alternatives", 1) > 1:
        yield f"Alternatives: up to {config['alternatives']} answers per customer and method"


def _seeds(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield f"Run: {manifest['seed']}"
    for name, seeds in (manifest.get("seeds") or {}).items():
        if isinstance(seeds, list):
            yield f"Retrained models, {name}: {', '.join(map(str, seeds))}"
