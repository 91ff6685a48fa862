"""How a sweep is cut into tasks: every row and bundle once, long work first, close to ideal schedules."""

from collections import Counter

import pytest
from robustcf_benchmarks.fanout import simulate, solver_seconds
from robustcf_jobs.sweep.cut import TARGET, Cut
from robustcf_jobs.sweep.unit import MOST_TOGETHER, bundles_of

import robustcf as rc

ROWS, BUNDLES = 5, 3
UNITS = {(name, k): name for name in ("cheap", "dear") for k in range(20)}
SECONDS = {"cheap": 0.01, "dear": 2.0}


def cut_all(slots: int = 2, pending: int = 6) -> list:
    """Take all parts, with some of them pending; each ends in the order in which it started."""
    cut = Cut(UNITS, ROWS, BUNDLES, lambda: slots)
    taken, waiting = [], []
    while True:
        part = next(cut, None)
        if part is not None:
            taken.append(part)
            waiting.append(part)
        if len(waiting) > pending or (part is None and waiting):
            ended = waiting.pop(0)
            cut.ended(ended, [len(ended.rows) * SECONDS[ended.unit[0]]] * len(ended.bundles))
        elif part is None:
            return taken


def test_every_row_and_bundle_is_solved_once() -> None:
    found = Counter((p.unit, r, b) for p in cut_all() for r in p.rows for b in p.bundles)
    assert set(found.values()) == {1}
    assert len(found) == len(UNITS) * ROWS * BUNDLES


def test_parts_are_near_the_target_and_the_long_ones_start_first() -> None:
    parts = cut_all()
    seconds = [len(p.rows) * len(p.bundles) * SECONDS[p.unit[0]] for p in parts]
    assert max(seconds) <= TARGET
    known = parts[2 * ROWS * BUNDLES :]  # one simulation of each data set is measured first
    cheap = [p for p in known if p.unit[0] == "cheap"]
    assert {(len(p.rows), len(p.bundles)) for p in cheap[4:]} == {(ROWS, BUNDLES)}
    names = [p.unit[0] for p in known]
    assert names.index("cheap") > len(names) // 2
    assert "dear" not in names[names.index("cheap") + 6 :]


@pytest.mark.parametrize(("cores", "most"), [(8, 1.05), (128, 1.25), (512, 2.0)])
def test_the_paper_sweep_is_scheduled_near_the_ideal(cores: int, most: float) -> None:
    units = solver_seconds()
    ideal = sum(float(seconds.sum()) for seconds in units.values()) / cores
    assert ideal <= simulate(units, cores) <= most * ideal


def test_bundles_are_families_and_only_thresholds_are_divided() -> None:
    thresholds = [rc.DirectSAA(alpha=(k + 1) / 100) for k in range(2 * MOST_TOGETHER)]
    certified = [rc.Certified(alpha=(k + 1) / 100) for k in range(2 * MOST_TOGETHER)]
    bundles = bundles_of([*thresholds, *certified])
    assert [len(b) for b in bundles] == [MOST_TOGETHER, MOST_TOGETHER, 2 * MOST_TOGETHER]
    assert sorted(j for b in bundles for j in b) == list(range(4 * MOST_TOGETHER))
    assert bundles[0] == tuple(range(MOST_TOGETHER, 2 * MOST_TOGETHER)), "the lower thresholds first"
