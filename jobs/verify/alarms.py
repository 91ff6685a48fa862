"""Recompute a run's alarms from its rows, and compare them with `alarms.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from robustcf.support.documents import parse_json
from robustcf.verify import Tally
from robustcf.verify.summary import GROUP

from ..run.alarms import FILE, limits_of, raised
from ..run.figures import Counted
from ..run.folder import BROKEN
from .records import Records
from .tables import first_line


def check_alarms(records: Records, tally: Tally) -> None:
    """Check `alarms.json`: its digest, and every figure and state."""
    run, findings = records.run, records.findings
    noted, limits = records.manifest.get("alarms"), limits_of(records.manifest)
    if not limits:
        findings.expect("alarms", "manifest.json: alarms", noted, None)
        if run.exists(FILE):
            findings.add("alarms", f"{FILE}: the run has no limits")
        return
    wanted = raised(limits, list(_counted(tally)), records.manifest)
    try:
        content = run.read(FILE)
        stored: Any = parse_json(content)
    except BROKEN as error:
        findings.add("alarms", f"{FILE}: cannot be read: {first_line(error)}")
        return
    digest = noted.get("sha256") if isinstance(noted, dict) else None
    findings.expect("alarms", f"{FILE}: sha256", digest, hashlib.sha256(content).hexdigest())
    state = noted.get("state") if isinstance(noted, dict) else None
    findings.expect("alarms", "manifest.json: alarms.state", state, wanted["state"])
    if not isinstance(stored, dict) or not isinstance(stored.get("alarms"), list):
        findings.add("alarms", f"{FILE}: it is not the file that robustcf writes")
        return
    for name in ("state", "method"):
        findings.expect("alarms", f"{FILE}: {name}", stored.get(name), wanted[name])
    if len(stored["alarms"]) != len(wanted["alarms"]):
        findings.add("alarms", f"{FILE}: it does not list each limit once")
        return
    for line, own in zip(stored["alarms"], wanted["alarms"], strict=True):
        findings.expect("alarms", f"{FILE}: {own['figure']}", line, own)


def _counted(tally: Tally) -> Iterator[Counted]:
    """Yield the counts of every method and group, recomputed from the rows."""
    for group, statuses in tally.statuses.items():
        key = dict(zip(GROUP, group, strict=True))
        denied = statuses.total() - statuses["already_favourable"] - statuses["invalid_input"]
        validity = {
            scenario: counts["valid_reached"] / counts["pairs_reached"]
            for (own, scenario), counts in tally.validity.items()
            if own == group and counts["pairs_reached"]
        }
        yield Counted(
            (key["method"], key["alpha"], key["beta"], key["parameter"]),
            key["cohort"],
            key["cohort_value"],
            denied,
            int(tally.sums[group]["n_reached"]),
            statuses["optimal"] + statuses["no_recourse"],
            tally.thresholds.get(group),
            validity,
        )
