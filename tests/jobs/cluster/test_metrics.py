"""The figures of a run for Prometheus: what a node serves after a run, and what the Grafana board names."""

import json
import re
import time
import urllib.request
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest
from robustcf_jobs.cluster.metrics import FIGURES, PENDING, ROWS, SOLVING, count_rows, set_pending

from tests.helpers.faultworld import nodes, small_audit
from tests.helpers.jobworld import ROOT, Command

PORT = 47911


def served() -> dict[str, float]:
    """The values that the node serves, summed over processes and all tags but the status."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, float] = defaultdict(float)
    for line in lines:
        if match := re.match(r"(ray_robustcf_\w+)\{(.*)\} (\S+)", line):
            status = re.search(r'[{,]?status="(\w+)"', match[2])
            found[match[1] + (f":{status[1]}" if status else "")] += float(match[3])
    return dict(found)


def test_a_node_serves_the_counts_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_enable_metrics_collection", "AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"):
        monkeypatch.delenv(name, raising=False)  # a local Ray of other tests serves none
    monkeypatch.setenv("RAY_metrics_report_interval_ms", "500")
    with nodes({"num_cpus": 2, "metrics_export_port": PORT}) as (there, _, _):
        command = Command("audit", str(small_audit(tmp_path)), **there)
        found: dict[str, float] = {}
        while command.process.poll() is None:
            with suppress(OSError):
                found |= served()  # the counters of a driver end with it
            time.sleep(0.2)
        code, output = command.finish()
    assert code == 0, output
    counts = json.loads((tmp_path / "run/manifest.json").read_text())["counts"]
    rows = {
        name.split(":")[1]: value for name, value in found.items() if name.startswith(ROWS.exported + ":")
    }
    assert rows
    assert all(0 < value <= counts[status] for status, value in rows.items())
    assert 0 < found[f"{SOLVING.exported}_count"] <= sum(counts.values())
    assert found[f"{SOLVING.exported}_sum"] > 0
    assert PENDING.exported in found


def test_the_board_names_exactly_the_figures_of_a_run() -> None:
    board = json.loads((ROOT / "deploy/grafana.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for text in expressions for name in re.findall(r"ray_\w+", text)}
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in named} == {f.exported for f in FIGURES}
    kinds = {f.exported: f.kind for f in FIGURES}
    for name in named - kinds.keys():
        assert kinds[re.sub("_(bucket|sum|count)$", "", name)] == "Histogram"
    tags = {tag for text in expressions for tag in re.findall(r"by \((\w+)\)", text)} - {"le"}
    assert tags == {tag for f in FIGURES for tag in f.tags}
    described = (ROOT / "docs/cluster.md").read_text()
    assert all(f"`{f.exported}`" in described for f in FIGURES)


def test_a_process_without_ray_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("sys").modules, "ray", raising=False)
    count_rows({"optimal": 1})
    set_pending(3)
