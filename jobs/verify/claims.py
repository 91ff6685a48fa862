"""`robustcf verify --resolve` and `--attack`: try to refute a run's claims."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from robustcf.verify import Block, Findings, ShardQuestion
from robustcf.verify.certificates import CERTIFIED
from robustcf.verify.claims import Claim, pool_of
from robustcf.verify.findings import short
from robustcf.verify.reading import numbers_of, read_texts
from robustcf.verify.rows import Checked
from robustcf.verify.sample import least_share_found

from ..terminal.progress import stage
from .input import Source
from .records import Unit

MOST_CLAIMS = 500_000  # in memory, a random sample of all
MOST_DONORS = 20_000  # per data set
MOST_PAIRS = 20_000_000  # pairs of a claim and a donor
SOLVED = ("optimal", "feasible", "no_recourse", "relaxed", "timeout")


@dataclass
class _Kept:
    """The claims of one unit and the data needed to judge them."""

    asked: ShardQuestion
    claims: list[Claim] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    origins: dict[str, np.ndarray] = field(default_factory=dict)


class Claims:
    """The claims of a run, or a random sample, and the attempts to refute them."""

    def __init__(self, resolve: int | None, attack: bool, seed: int, limit: float) -> None:
        self.resolve, self.attacks, self.seed, self.limit = resolve, attack, seed, limit
        self.rng = np.random.default_rng(seed)
        self.units: dict[tuple[str, str], _Kept] = {}
        self.answers: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self.total = 0
        self.kept = 0
        self.unknown_pool = 0  # claims of certified rows without a level or with a pool that is not stored

    def add(self, unit: Unit, asked: ShardQuestion, block: Block, checked: Checked) -> None:
        """Collect the claims and points of a block of rows."""
        mine = self.units.setdefault((unit.dataset, unit.shard), _Kept(asked))
        frame = block.frame
        status = frame["status"].to_numpy(dtype=object)
        numbers = {
            c: frame[c].to_numpy(dtype=np.float64, na_value=np.nan) for c in ("objective", "lower_bound")
        }
        ids = frame["instance_id"].to_numpy(dtype=object)
        targets = {t: asked.trees.position(str(t)) for t in pd.unique(frame["target"].to_numpy(dtype=object))}
        levels = _levels(block)
        # An alternative is the nearest of the points that differ enough, which is no claim about all points.
        nearest = frame["alternative"].fillna(0).to_numpy() == 0
        key = self.rng.integers(0, 2**62, len(frame))
        for i in np.flatnonzero(np.isin(status, SOLVED) & (checked.method >= 0) & nearest):
            least = _least(status[i], numbers["objective"][i], numbers["lower_bound"][i])
            target = targets[frame["target"].iloc[i]]
            if least is None or target < 0:
                continue
            method = int(checked.method[i])
            name = f"{block.file}: {short(ids[i])}, {asked.demands[method]}"
            level, pool_trees = levels.get(int(i), (None, 0))
            leveled = asked.demands[method].name == CERTIFIED and status[i] != "no_recourse"
            if leveled and (level is None or pool_of(asked, method, pool_trees) is None):
                self.unknown_pool += 1
                continue
            mine.claims.append(Claim(name, str(ids[i]), method, target, status[i], least, level, pool_trees))
            mine.keys.append(int(key[i]))
            self.total, self.kept = self.total + 1, self.kept + 1
        for i, origin in zip(checked.instance, checked.origin, strict=True):
            mine.origins.setdefault(str(ids[i]), origin)
        if self.attacks and len(block.at):
            self._add_answers(unit.dataset, asked, block)
        if self.kept > 2 * MOST_CLAIMS:
            self._thin_out()

    def _add_answers(self, dataset: str, asked: ShardQuestion, block: Block) -> None:
        """Collect points as numbers: changed features from `changes`, the others decoded."""
        features, changes = asked.schema.features, block.changes
        points = numbers_of(features, block.points)
        own = points.copy()
        for j, feature in enumerate(features):
            mine = np.flatnonzero(changes.feature == feature.name)
            if len(mine):
                at = changes.row[mine]
                points[at, j] = read_texts(feature, changes.after[mine])
                own[at, j] = read_texts(feature, changes.before[mine])
        known = ~np.isnan(points[changes.row]).any(axis=1) if len(changes.row) else np.zeros(0, dtype=bool)
        at = np.unique(changes.row[known])
        self.answers.setdefault(dataset, []).append((own[at], points[at]))

    def _thin_out(self) -> None:
        keys = np.sort([key for unit in self.units.values() for key in unit.keys])
        most = keys[MOST_CLAIMS - 1]
        for unit in self.units.values():
            stay = [k for k, key in enumerate(unit.keys) if key <= most]
            unit.claims, unit.keys = [unit.claims[k] for k in stay], [unit.keys[k] for k in stay]
        self.kept = sum(len(u.claims) for u in self.units.values())

    def go(self, source: Source, findings: Findings) -> list[str]:
        """Try to refute claims; add refuted ones to the findings and return a summary."""
        lines: list[str] = []
        if self.attacks:
            lines += self._attack(source, findings)
        if self.resolve is not None:
            lines += self._resolve(source, findings, self.resolve)
        if self.unknown_pool:
            lines.append(
                f"not checked: {self.unknown_pool:,} claims of {CERTIFIED} rows: "
                "they have no level, or their pool is not stored"
            )
        return lines

    def _chosen(self, n: int) -> Iterator[tuple[tuple[str, str], list[int]]]:
        """Yield the n claims with the smallest random keys, unit by unit."""
        keys = np.array([key for unit in self.units.values() for key in unit.keys], dtype=np.int64)
        most = np.sort(keys)[min(n, len(keys)) - 1] if len(keys) else -1
        for name, unit in self.units.items():
            mine = [k for k, key in enumerate(unit.keys) if key <= most]
            if mine:
                yield name, mine

    def _own(self, source: Source, dataset: str, unit: _Kept, claims: list[Claim]) -> np.ndarray:
        """Return the customers' own rows.

        They come from their table, else from points with changes undone.
        """
        schema = unit.asked.schema
        rows = source.rows_of(dataset, [c.customer for c in claims])
        rows = rows if rows.shape[1] == len(schema) else np.full((len(claims), len(schema)), np.nan)
        for k in np.flatnonzero(np.isnan(rows).all(axis=1)):
            origin = unit.origins.get(claims[k].customer)
            if origin is not None:
                rows[k] = numbers_of(schema.features, origin[None])[0]
        return rows

    def _resolve(self, source: Source, findings: Findings, n: int) -> list[str]:
        from robustcf.verify.full import resolve

        outcomes: Counter[str] = Counter()
        with stage("re-solving", min(n, self.kept)) as progress:
            for (dataset, shard), mine in self._chosen(n):
                unit = self.units[dataset, shard]
                claims = [unit.claims[k] for k in mine]
                for claim, own in zip(claims, self._own(source, dataset, unit, claims), strict=True):
                    if np.isnan(own).all():
                        outcomes["unknown"] += 1
                    else:
                        found = resolve(unit.asked, claim, own, self.limit)
                        outcomes[found.outcome] += 1
                        if found.outcome == "refuted":
                            findings.add(
                                "resolve", _refuted(claim, found.objective, found.score, "HiGHS finds")
                            )
                    progress.advance(1)
        decided = outcomes["confirmed"] + outcomes["refuted"]
        lines = [
            f"resolve: {sum(outcomes.values()):,} of {self.total:,} claims, seed {self.seed}: "
            f"{outcomes['confirmed']:,} confirmed, {outcomes['refuted']:,} refuted, "
            f"{outcomes['open']:,} open after {self.limit:g} s each"
        ]
        if outcomes["unknown"]:
            skipped = outcomes["unknown"]
            lines.append(f"resolve: {skipped:,} claims skipped: the customer's row is not available")
        share = least_share_found(self.total, decided)
        lines.append(
            "resolve: no claim was decided"
            if not decided
            else f"resolve: if {100 * share:.3g} % of the claims or more were false, "
            "a sample of this size would find one with 95 % confidence"
        )
        return lines

    def _attack(self, source: Source, findings: Findings) -> list[str]:
        from robustcf.verify.attack import attack, donors

        tried = attacked = unknown = hits = 0
        pool = {}
        for dataset, answers in self.answers.items():
            found = donors(*(np.vstack(part) for part in zip(*answers, strict=True)))
            if len(found) > MOST_DONORS:
                found = found[self.rng.choice(len(found), MOST_DONORS, replace=False)]
            pool[dataset] = found
        donors_per_claim = max((len(p) for p in pool.values()), default=1) or 1
        with stage("attacking", min(self.kept, MOST_PAIRS // donors_per_claim)) as progress:
            for (dataset, shard), mine in self._chosen(max(1, MOST_PAIRS // donors_per_claim)):
                unit = self.units[dataset, shard]
                claims = [unit.claims[k] for k in mine]
                own = self._own(source, dataset, unit, claims)
                known = np.flatnonzero(~np.isnan(own).all(axis=1))
                unknown += len(claims) - len(known)
                given = pool.get(dataset, np.zeros((0, own.shape[1])))
                found_, pairs = attack(unit.asked, [claims[k] for k in known], own[known], given)
                for hit in found_:
                    findings.add(
                        "attack", _refuted(hit.claim, hit.objective, hit.score, "an answer of the run")
                    )
                tried, attacked, hits = tried + pairs, attacked + len(known), hits + len(found_)
                progress.advance(len(claims))
        lines = [
            f"attack: {tried:,} pairs of a claim and an answer, {attacked:,} of {self.total:,} claims, "
            f"seed {self.seed}: {hits:,} refuted"
        ]
        if unknown:
            lines.append(f"attack: {unknown:,} claims skipped: the customer's row is not available")
        return lines


def _levels(block: Block) -> dict[int, tuple[float, int]]:
    """Return the level and the number of pool trees of each row with a certificate."""
    table = block.certificates
    if table is None:
        return {}
    values = zip(table["row"], table["certificate_level"], table["certificate_pool_trees"], strict=True)
    return {int(i): (float(level), int(n)) for i, level, n in values if level == level and n == n}


def _least(status: str, objective: float, bound: float) -> float | None:
    """Return the row's claimed lower bound on every point's cost, or None."""
    if status in ("no_recourse", "relaxed"):
        return math.inf
    least = objective if status == "optimal" else bound
    return float(least) if least > 0 else None


def _refuted(claim: Claim, objective: float, score: float, who: str) -> str:
    return f"{claim.name}: {claim.words}; {who} costs {objective:.9g} and scores {score:.9g}"


def challenge(resolve: int | None, attack: bool, seed: int | None, limit: float = 60.0) -> Claims | None:
    """Return the claims checker for `--resolve` and `--attack`.

    The result is None if neither is given.
    """
    if resolve is None and not attack:
        return None
    return Claims(resolve, attack, secrets.randbits(32) if seed is None else seed, limit)
