"""Counts and exact sums of one shard.

Their total does not depend on the order of shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from robustcf.stats import bin_of, exact_sums

from ..run.advice import advice_rows
from ..run.folder import RunFolder
from ..run.groups import crossed_name, crossed_value
from ..run.reader import read_both

KEY = ("dataset", "method", "alpha", "beta", "parameter", "voting", "n_trees")
GROUP = (*KEY, "cohort", "cohort_value")
_COLUMNS = [*KEY, "simulation", "instance_id", "cohort", "status", "distance", "n_changed", "seconds"]
_COLUMNS += ["score_after", "threshold", "verified", "certified"]
_MEASURED = ("instance_id", "scenario", "valid")
_UNSOLVED = ("already_favourable", "invalid_input")
Group = tuple[Any, ...]


@dataclass
class Validity:
    """Counts of (row, forest) pairs and of valid pairs, for one group and scenario."""

    pairs: int = 0
    valid: int = 0
    pairs_common: int = 0
    valid_common: int = 0
    simulation_pairs: Counter[int] = field(default_factory=Counter)
    simulation_valid: Counter[int] = field(default_factory=Counter)
    forest_pairs: Counter[int] = field(default_factory=Counter)
    forest_valid: Counter[int] = field(default_factory=Counter)

    def add(self, other: Validity) -> None:
        add_counts(self, other)


@dataclass
class Part:
    """Counts and sums of one group.

    Sums of floats are exact, in the units of `exact_sums`. Validity is counted for all rows with a point, for
    those that reach the threshold, and for those with a certificate.
    """

    rows: int = 0
    points: int = 0
    reached: int = 0
    certified: int = 0
    distance: int = 0
    squares: int = 0
    changed: int = 0
    common: int = 0
    distance_common: int = 0
    threshold: float | None = None  # the highest of the rows
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: Counter[int] = field(default_factory=Counter)
    distances: Counter[int] = field(default_factory=Counter)  # of the rows that reach the threshold, by bin
    simulation_points: Counter[int] = field(default_factory=Counter)
    simulation_distance: Counter[int] = field(default_factory=Counter)
    scenarios: dict[str, Validity] = field(default_factory=dict)
    scenarios_reached: dict[str, Validity] = field(default_factory=dict)
    scenarios_certified: dict[str, Validity] = field(default_factory=dict)

    def add(self, other: Part) -> None:
        for kind in SCENARIOS:
            own = getattr(self, kind)
            for name, validity in getattr(other, kind).items():
                own.setdefault(name, Validity()).add(validity)
        self.threshold = max((t for t in (self.threshold, other.threshold) if t is not None), default=None)
        add_counts(self, other)


SCENARIOS = ("scenarios", "scenarios_reached", "scenarios_certified")


def add_counts(mine: Any, other: Any) -> None:
    """Add the counts of another object field by field.

    Skip fields that are not counts.
    """
    for f in fields(mine):
        value = getattr(other, f.name)
        if isinstance(value, int):
            setattr(mine, f.name, getattr(mine, f.name) + value)
        elif isinstance(value, Counter):
            getattr(mine, f.name).update(value)


def merge(total: dict[Group, Part], more: Mapping[Group, Part]) -> None:
    for group, part in more.items():
        total.setdefault(group, Part()).add(part)


def partial_of(
    run: RunFolder, shards: Sequence[str], cohorts: Sequence[str], n_methods: int, advice_only: bool
) -> dict[Group, Part]:
    """Return the counts and sums of some shards, per group.

    With `advice_only`, means cover the rows whose point works; otherwise every row with a point, as in the
    paper.
    """
    total: dict[Group, Part] = {}
    for shard, (table, validation) in zip(shards, read_both(run, shards, _COLUMNS, _MEASURED), strict=True):
        if not len(table):
            continue
        valid = {} if validation is None else dict(_validations(shard, table, validation))
        for codes, groups in _groupings(table, cohorts):
            merge(total, _parts(table, codes, groups, valid, n_methods, advice_only))
    return total


def _groupings(table: pa.Table, cohorts: Sequence[str]) -> Iterator[tuple[np.ndarray, list[Group]]]:
    """Yield the groups by method, by value of each cohort column, and by values of any two columns."""
    keys = table.select(list(KEY)).to_pandas()
    yield _codes(keys.assign(cohort="", cohort_value=""))
    column = table["cohort"].combine_chunks()
    values = {name: pc.map_lookup(column, name, "first").to_pylist() for name in cohorts}
    for name, own in values.items():
        yield _codes(keys.assign(cohort=name, cohort_value=own))
    for (one, mine), (other, theirs) in combinations(values.items(), 2):
        both = [crossed_value(a, b) for a, b in zip(mine, theirs, strict=True)]
        yield _codes(keys.assign(cohort=crossed_name(one, other), cohort_value=both))


def _codes(frame: pd.DataFrame) -> tuple[np.ndarray, list[Group]]:
    grouped = frame.groupby(list(GROUP), dropna=False, sort=False, observed=True)
    codes = grouped.ngroup().to_numpy()
    first = np.unique(codes, return_index=True)[1]
    keys = [
        tuple(None if pd.isna(v) else v for v in row) for row in frame.iloc[first].itertuples(index=False)
    ]
    return codes, keys


def _validations(shard: str, table: pa.Table, validation: pa.Table) -> Iterator[tuple[str, np.ndarray]]:
    """Yield per scenario which (row with a point, forest) pairs are valid."""
    ids = table.filter(table["distance"].is_valid())["instance_id"]
    for name in sorted(set(validation["scenario"].unique().to_pylist())):
        own = validation.filter(pc.equal(validation["scenario"], name))
        if not own["instance_id"].equals(ids):
            raise ValueError(f"validation/{shard} does not belong to counterfactuals/{shard}")
        lists = own["valid"].combine_chunks()
        flat = lists.flatten().to_numpy(zero_copy_only=False).astype(bool)
        yield name, flat.reshape(len(own), -1)


def _parts(
    table: pa.Table,
    codes: np.ndarray,
    groups: list[Group],
    valid: Mapping[str, np.ndarray],
    n_methods: int,
    advice_only: bool,
) -> dict[Group, Part]:
    n = len(groups)
    status = table["status"].to_pandas()
    distance = table["distance"].to_numpy().astype(np.float64)
    seconds, simulation = table["seconds"].to_numpy(), table["simulation"].to_numpy()
    has_point = ~np.isnan(distance)
    works = has_point & advice_rows(table)
    point = works if advice_only else has_point
    common = point & _in_all(table, point, n_methods)
    certified = point & certified_rows(table)
    parts = [Part() for _ in groups]
    for name, mask in (
        ("rows", np.ones(len(table), dtype=bool)),
        ("points", point),
        ("reached", works),
        ("certified", certified),
        ("common", common),
    ):
        for g, count in enumerate(np.bincount(codes[mask], minlength=n)):
            setattr(parts[g], name, int(count))
    changed = np.nan_to_num(table["n_changed"].to_numpy().astype(np.float64)).astype(np.int64)
    for name, values, mask in (
        ("distance", distance, point),
        ("squares", distance * distance, point),
        ("distance_common", distance, common),
    ):
        for g, total in enumerate(exact_sums(values[mask], codes[mask], n)):
            setattr(parts[g], name, total)
    for g, total in enumerate(np.bincount(codes[point], weights=changed[point], minlength=n)):
        parts[g].changed = int(total)
    for (g, name), count in _pairs(codes, status.to_numpy()):
        parts[g].statuses[name] += count
    solved = ~status.isin(_UNSOLVED).to_numpy()
    for (g, number), count in _pairs(codes[solved], bin_of(seconds[solved])):
        parts[g].seconds[number] += count
    for (g, number), count in _pairs(codes[works], bin_of(distance[works])):
        parts[g].distances[number] += count
    for (g, number), count in _pairs(codes[point], simulation[point]):
        parts[g].simulation_points[number] += count
    both, of = _combined(codes[point], simulation[point])
    for k, total in enumerate(exact_sums(distance[point], both, len(of))):
        parts[of[k][0]].simulation_distance[of[k][1]] += total
    threshold = table["threshold"].to_numpy().astype(np.float64)
    highest = pd.Series(threshold).groupby(codes).max()  # of the groups 0, 1, ...
    for part, most in zip(parts, highest, strict=True):
        part.threshold = None if np.isnan(most) else float(most)
    for name, matrix in valid.items():
        for kind, rows in zip(SCENARIOS, (point, works, certified), strict=True):
            found = [Validity() for _ in parts]
            _add_validity(found, matrix[rows[has_point]], codes[rows], simulation[rows], common[rows])
            for part, validity in zip(parts, found, strict=True):
                getattr(part, kind)[name] = validity
    return dict(zip(groups, parts, strict=True))


def certified_rows(table: pa.Table) -> np.ndarray:
    """Return which rows have a certificate that makes its claim."""
    certified: np.ndarray = table["certified"].to_numpy().astype(bool)
    return certified


def _add_validity(
    found: list[Validity],
    matrix: np.ndarray,
    codes: np.ndarray,
    simulation: np.ndarray,
    common: np.ndarray,
) -> None:
    """Count the valid pairs of some rows, by group."""
    n, forests = len(found), matrix.shape[1]
    hits = matrix.sum(axis=1)
    for suffix, mask in (("", np.ones(len(codes), dtype=bool)), ("_common", common)):
        rows = np.bincount(codes[mask], minlength=n)
        good = np.bincount(codes[mask], weights=hits[mask], minlength=n)
        for g in range(n):
            setattr(found[g], f"pairs{suffix}", int(rows[g]) * forests)
            setattr(found[g], f"valid{suffix}", int(good[g]))
    both, of = _combined(codes, simulation)
    rows, good = np.bincount(both, minlength=len(of)), np.bincount(both, weights=hits, minlength=len(of))
    for k, (g, number) in enumerate(of):
        found[g].simulation_pairs[number] += int(rows[k]) * forests
        found[g].simulation_valid[number] += int(good[k])
    rows = np.bincount(codes, minlength=n)
    for k in range(forests):
        good = np.bincount(codes, weights=matrix[:, k], minlength=n)
        for g in range(n):
            found[g].forest_pairs[k] += int(rows[g])
            found[g].forest_valid[k] += int(good[g])


def _in_all(table: pa.Table, point: np.ndarray, n_methods: int) -> np.ndarray:
    """Return which rows belong to instances with a point from every method."""
    columns = ["dataset", "simulation", "n_trees", "instance_id"]
    instance = table.select(columns).to_pandas().groupby(columns, sort=False).ngroup().to_numpy()
    inside: np.ndarray = np.bincount(instance[point], minlength=instance.max() + 1)[instance] >= n_methods
    return inside


def _pairs(codes: np.ndarray, values: np.ndarray) -> Iterator[tuple[tuple[int, Any], int]]:
    counted = pd.DataFrame({"g": codes, "v": values}).groupby(["g", "v"], sort=False).size()
    for key, count in counted.items():
        g, value = cast(tuple[int, Any], key)
        yield (int(g), value), int(count)


def _combined(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    grouped = pd.DataFrame({"g": codes, "v": values}).groupby(["g", "v"], sort=False)
    number = grouped.ngroup().to_numpy()
    first = np.unique(number, return_index=True)[1] if len(number) else np.zeros(0, dtype=np.int64)
    return number, [(int(codes[i]), int(values[i])) for i in first]
