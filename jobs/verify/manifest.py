"""Check a manifest's digests and hashes of the whole run, and its list of files."""

from __future__ import annotations

import hashlib
from typing import Any

from robustcf.methods.answer_key import answer_key
from robustcf.verify.findings import listed, short

from .records import Records
from .tables import first_line


def check_digests(records: Records) -> None:
    """Check every digest of the run as a whole.

    Files with their own digest (shards, forests, isolation forests) are checked where they are read.
    """
    manifest, expect = records.manifest, records.findings.expect
    expect("manifest", "manifest.json: state", manifest.get("state"), "complete")
    expect("config", "manifest.json: config_hash", manifest.get("config_hash"), records.config_hash)
    expect("config", "manifest.json: seed", records.seed, records.config.get("seed"))
    expect("counts", "manifest.json: methods", manifest.get("methods"), len(records.demands))
    _check_report(records)
    if records.kind == "audit":
        _check_answer_keys(records)


def _check_answer_keys(records: Records) -> None:
    """Recompute the answer keys, which identify each method's question."""
    manifest, trees = records.manifest, records.trees("forest")
    if trees is None or (versions := manifest.get("versions")) is None:
        return
    training = manifest.get("training_hash")
    target = next(label for label in trees.classes if str(label) == records.target(trees))
    wanted = [
        dict(zip(("method", "alpha", "beta", "parameter"), demand.key, strict=True))
        | {
            "key": answer_key(
                method,
                forest=str(manifest.get("forest_hash")),
                schema=str(manifest.get("schema_hash")),
                target=target,
                voting=records.voting,
                solver=records.take("config", "solver", "name", str),
                seed=records.seed,
                training=training.get("all" if method.needs_later_rows else "first")
                if isinstance(training, dict)
                else None,
                versions=versions,
                alternatives=records.alternatives,
                levers=list(records.levers.items()),
            )
        }
        for method, demand in zip(records.methods, records.demands, strict=True)
    ]
    records.findings.expect("answer keys", "manifest.json: answer_keys", manifest.get("answer_keys"), wanted)


def _check_report(records: Records) -> None:
    """Check that the report is the one that the run wrote."""
    noted: Any = records.manifest.get("report")
    if not isinstance(noted, dict):
        records.findings.add(
            "report", "manifest.json: the report has no digest; write it again with: robustcf report RUN"
        )
        return
    try:
        content = records.run.read("report.html")
    except OSError as error:
        records.findings.add("report", f"report.html: cannot be read: {first_line(error)}")
        return
    digest = hashlib.sha256(content).hexdigest()
    records.findings.expect("report", "report.html: sha256", noted.get("sha256"), digest)


def check_listing(records: Records) -> None:
    """Check that the shards in the folder, the manifest and the plan are the same."""
    findings = records.findings
    for folder in ("counterfactuals", "validation"):
        asked = folder == "counterfactuals" or records.measured
        wanted = {f"{folder}/{unit.shard}" for unit in records.units} if asked else set()
        there = set(records.run.names(folder))
        noted = {name for name in records.shards if name.startswith(f"{folder}/")}
        for names, what in (
            (wanted - there, "is missing"),
            (there - wanted, "does not belong to the run"),
            (wanted - noted, "is not listed in manifest.json"),
            (noted - wanted, "is listed in manifest.json but does not belong to the run"),
        ):
            for name in sorted(names):
                findings.add("files", f"{short(name)} {what}")
    stray = [n for n in records.shards if not n.startswith(("counterfactuals/", "validation/"))]
    if stray:
        findings.add("files", f"manifest.json lists {listed(stray)}, which is not a shard")
