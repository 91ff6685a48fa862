"""The soak's verdict: a process that grows is told from one that breathes."""

from robustcf_benchmarks.soak import growth, is_flat


def test_growth_is_seen_and_breathing_is_not() -> None:
    times = [float(t) for t in range(0, 1800, 2)]
    steady = [(t, 400 + 10 * ((t / 2) % 3)) for t in times]
    leaking = [(t, 60 + t / 60) for t in times]  # a megabyte a minute
    starting = [(t, 40 + t) for t in times[:5]]  # renames itself after ten seconds
    found = growth({"worker": steady, "starting": starting, "gone": steady}, 1800)
    assert found == {"worker": {"second_quarter": 410, "last_quarter": 410, "most": 420}}
    assert is_flat(found)
    assert not is_flat(growth({"worker": steady, "gcs_server": leaking}, 1800))
