"""Compute a shard's part of the report, with one row group in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from robustcf.stats import exact_sums

from ..run.advice import advice_rows
from ..run.columns import CERTIFICATE, TESTED, certificate_of
from ..run.folder import RunFolder
from ..run.previous import KEPT
from ..run.reader import at_once, blocks_of, open_shard, read_row_groups
from ..run.rows import Key
from .parts import (
    FAILED,
    LOOKED_AT,
    METHOD,
    NOT_ASKED,
    SAMPLE,
    SLOWEST,
    Chosen,
    MethodCounts,
    PopulationCounts,
    ReportParts,
)

_SHOWN = (
    *METHOD, "status", "reason", "distance", "score_before", "score_after", "threshold", "gap",
    "predicted_validity", "best_score", "changes", "seconds", "nodes", "solver",
)  # fmt: skip
_CERTIFICATE = tuple(field.name for field in CERTIFICATE.values())
_WHO = ("dataset", "simulation", "n_trees", "instance_id", "cohort")
_COLUMNS = [*_WHO, "best_score_gap", "verified", *_SHOWN, *_CERTIFICATE]
_MOST = 2**64 - 1  # the largest hash


def look_at(run: RunFolder, shards: Sequence[str]) -> ReportParts:
    """Return the merged parts of these shards, with one row group in memory at a time."""
    found = ReportParts()
    opened = at_once(run, partial(open_shard, run, "counterfactuals"), shards)
    for shard, file in zip(shards, opened, strict=True):
        if file is None:
            raise FileNotFoundError(run.showing(f"counterfactuals/{shard}"))
        own = ReportParts()
        for group in read_row_groups(file, "counterfactuals", _COLUMNS):
            for part in _by_place(group):
                own.add(_Group(part).found(found.limits()))
        _add_validity(run, shard, [c for rows in own.sample.values() for _, c in rows])
        found.add(own)
    return found


def _by_place(table: pa.Table) -> Iterator[pa.Table]:
    """Split a row group by data set and forest size; our own shards hold only one of each."""
    places = table.select(["dataset", "n_trees"]).group_by(["dataset", "n_trees"], use_threads=False)
    distinct = places.aggregate([]).to_pylist()
    for place in distinct:
        if len(distinct) == 1:
            yield table
        else:
            same = (pc.equal(table[name], value) for name, value in place.items())
            yield table.filter(pc.and_(*same))


class _Group:
    """Rows of one population, with `methods` rows per customer, always in the same order."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.keys = self._methods()
        self.m = len(self.keys)
        self.ids = np.array(self.table["instance_id"].to_pylist(), dtype=object)
        if len(self.ids) % self.m or (self.ids.reshape(-1, self.m) != self.ids[:: self.m, None]).any():
            raise ValueError("a shard does not hold the methods of each customer together")
        self.status = self._matrix(np.array(self.table["status"].to_pylist(), dtype=object))
        self.distance = self._numbers("distance")
        self.threshold = self._numbers("threshold")
        self.reached = ~np.isnan(self.distance) & self._matrix(advice_rows(self.table))
        self.none = self.status == "no_recourse"
        self.denied = ~np.isin(self.status, NOT_ASKED).all(axis=1)
        self.hashes = _hash(self.table, self.ids, self.m)

    def _methods(self) -> list[Key]:
        columns = (self.table[c].to_pylist() for c in METHOD)
        return list(dict.fromkeys(zip(*columns, strict=True)))

    def _matrix(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, self.m)

    def _numbers(self, name: str) -> np.ndarray:
        return self._matrix(self.table[name].to_numpy().astype(np.float64))

    def found(self, limits: Mapping[str, int]) -> ReportParts:
        """Return these rows' part; customers with a hash above the limit are not sampled."""
        place = (self.table["dataset"][0].as_py(), int(self.table["n_trees"][0].as_py()))
        facts = PopulationCounts(
            seen=len(self.status),
            favourable=int((self.status == "already_favourable").all(axis=1).sum()),
            invalid=int((self.status == "invalid_input").any(axis=1).sum()),
        )
        least = self._least_demanding()
        some = self.reached.any(axis=1)
        facts.any_reached = int((some & self.denied).sum())
        facts.any_none = int((~some & self.none[:, least]).sum())
        self._doubts(facts)
        levers = self._levers()
        for j, key in enumerate(self.keys):
            facts.methods[key] = levers[j]
            self._method(levers[j], j)
        return ReportParts({place: facts}, self._sample(limits), self._slow(), self._failed())

    def _least_demanding(self) -> int:
        names = [key[0] for key in self.keys]
        if "naive" in names:
            return names.index("naive")
        lowest = np.where(np.isnan(self.threshold), np.inf, self.threshold).min(axis=0)
        return int(lowest.argmin())

    def _doubts(self, facts: PopulationCounts) -> None:
        gaps = self._numbers("gap")[self.status == "feasible"]
        facts.feasible_gap = float(np.nanmax(gaps, initial=0.0)) if len(gaps) else 0.0
        facts.kept = int(pc.sum(pc.equal(self.table["reason"], KEPT)).as_py() or 0)
        verified = self._matrix(pc.fill_null(self.table["verified"], False).to_numpy().astype(bool))
        facts.unverified = int((~verified & ~np.isnan(self.distance)).sum())
        facts.open_best_scores = int((self.none & ~(self._numbers("best_score_gap") <= 0)).sum())

    def _method(self, facts: MethodCounts, j: int) -> None:
        facts.statuses = Counter(self.status[:, j].tolist())
        facts.reached, facts.none = int(self.reached[:, j].sum()), int(self.none[:, j].sum())
        known = self.threshold[:, j][~np.isnan(self.threshold[:, j])]
        facts.threshold = float(known[0]) if len(known) else None
        naive = next((k for k, key in enumerate(self.keys) if key[0] == "naive"), None)
        if naive is not None:
            both = self.reached[:, j] & self.reached[:, naive]
            facts.pairs = int(both.sum())
            facts.distance_paired = exact_sums(self.distance[both, j])[0]
            facts.naive_paired = exact_sums(self.distance[both, naive])[0]
        predicted = self._numbers("predicted_validity")[:, j]
        used = ~np.isnan(predicted) & self.reached[:, j]
        facts.predicted_rows, facts.predicted = int(used.sum()), exact_sums(predicted[used])[0]
        facts.answers = facts.reached
        own = self.table.select(_CERTIFICATE).take(pa.array(np.arange(j, len(self.ids), self.m)))
        tested = own.filter(own[TESTED].is_valid())
        facts.certificate = certificate_of(tested.slice(0, 1).to_pylist()[0]) if len(tested) else None

    def _levers(self) -> list[MethodCounts]:
        """Count the changed features, their changes, and for categories the old and new values."""
        facts = [MethodCounts() for _ in self.keys]
        answers = self.table["changes"].filter(pa.array(self.reached.ravel())).combine_chunks()
        owner = np.flatnonzero(self.reached.ravel())[pc.list_parent_indices(answers).to_numpy()] % self.m
        flat = answers.flatten()
        if not len(flat):
            return facts
        feature = flat.field("feature").dictionary_encode()
        names, codes = feature.dictionary.to_pylist(), feature.indices.to_numpy()
        delta = flat.field("delta").to_numpy(zero_copy_only=False).astype(np.float64)
        group = owner * len(names) + codes
        moved, shifted = np.abs(np.nan_to_num(delta)), np.nan_to_num(delta)
        size = self.m * len(names)
        totals = zip(
            np.bincount(group, minlength=size).tolist(),
            exact_sums(moved, group, size),
            exact_sums(shifted, group, size),
            strict=True,
        )
        for g, (uses, far, signed) in enumerate(totals):
            if uses:
                own, name = facts[g // len(names)], names[g % len(names)]
                own.uses[name], own.moved[name], own.shifted[name] = uses, far, signed
        for i in np.flatnonzero(np.isnan(delta)):
            change = flat[int(i)].as_py()
            facts[owner[i]].words[change["feature"], change["before"], change["after"]] += 1
        return facts

    def _sample(self, limits: Mapping[str, int]) -> dict[str, list[Chosen]]:
        whole = (self.reached | np.isin(self.status, NOT_ASKED)).all(axis=1)
        kinds = {"answered": self.denied & whole, "other": self.denied & ~whole}
        chosen = {}
        for name, mask in kinds.items():
            near = mask & (self.hashes <= np.uint64(limits.get(name, _MOST)))
            chosen[name] = self._customers(_smallest(self.hashes, near, SAMPLE[name]))
        return chosen

    def _customers(self, chosen: np.ndarray) -> list[Chosen]:
        m = self.m
        rows = self.table.take((chosen[:, None] * m + np.arange(m)).ravel()).to_pylist()
        made = []
        for k, c in enumerate(chosen):
            own = rows[k * m : (k + 1) * m]
            who = {name: own[0][name] for name in _WHO}
            answers = [
                {name: row[name] for name in (*_SHOWN, *_CERTIFICATE)}
                | {"held": {}, "works": bool(self.reached[c, j])}
                for j, row in enumerate(own)
            ]
            made.append((int(self.hashes[c]), who | {"rows": answers}))
        return made

    def _rows(self, chosen: np.ndarray) -> list[Chosen]:
        names = [name for name in (*_WHO, *_SHOWN) if name not in ("changes", "cohort")]
        rows = self.table.select(names).take(chosen).to_pylist()
        return list(zip(self.hashes[chosen // self.m].tolist(), rows, strict=True))

    def _slow(self) -> list[Chosen]:
        seconds = np.where(np.isin(self.status, NOT_ASKED), 0.0, self._numbers("seconds")).ravel()
        order = np.argsort(-seconds, kind="stable")[:SLOWEST]
        return self._rows(order[seconds[order] > 0])

    def _failed(self) -> dict[str, list[Chosen]]:
        found = {}
        hashes = np.repeat(self.hashes, self.m)
        first = np.tile(np.arange(self.m) == 0, len(self.status))
        for name in LOOKED_AT:
            mask = self.status.ravel() == name
            if name == "invalid_input":  # list an unreadable customer once, not once per method
                mask &= first
            if mask.any():
                found[name] = self._rows(_smallest(hashes, mask, FAILED))
        return found


def _hash(table: pa.Table, ids: np.ndarray, m: int) -> np.ndarray:
    """Return a hash of each customer's name, which selects the sample."""
    simulations = table["simulation"].to_numpy()[::m]
    dataset = table["dataset"][0].as_py()
    names = [f"{dataset}/{s}/{i}" for s, i in zip(simulations, ids[::m], strict=True)]
    hashed: np.ndarray = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
    return hashed


def _smallest(hashes: np.ndarray, mask: np.ndarray, n: int) -> np.ndarray:
    at = np.flatnonzero(mask)
    return at[np.argsort(hashes[at], kind="stable")[:n]]


def _add_validity(run: RunFolder, shard: str, customers: Iterable[Mapping[str, Any]]) -> None:
    """Add, for the customers shown, how many retrained forests accept each answer."""
    rows = {
        (c["instance_id"], c["simulation"], *(row[k] for k in METHOD)): row
        for c in customers
        for row in c["rows"]
    }
    if not rows or (file := open_shard(run, "validation", shard)) is None:
        return
    wanted = pa.array(sorted({key[0] for key in rows}))
    columns = ["instance_id", "simulation", *METHOD, "scenario", "valid"]
    for block in blocks_of(file, "validation", columns):
        for line in block.filter(pc.is_in(block["instance_id"], value_set=wanted)).to_pylist():
            row = rows.get((line["instance_id"], line["simulation"], *(line[k] for k in METHOD)))
            if row is not None:
                row["held"][line["scenario"]] = (sum(line["valid"]), len(line["valid"]))
