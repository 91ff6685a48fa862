"""`robustcf verify --retrain`: train fresh forests again and compare them with the run's."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from robustcf.certificate.design import Design, Order
from robustcf.certificate.fresh import joint_fingerprint, train_order
from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import Forest
from robustcf.verify import Findings
from robustcf.verify.sample import least_share_found

from ..inputs.errors import BadInput
from .records import Unit


@dataclass(frozen=True)
class AllRows:
    """Encoded rows and labels, later ones included; `first` are the explained forest's rows."""

    X: np.ndarray
    y: np.ndarray
    first: np.ndarray


class Retraining:
    """Trains a random sample of a run's fresh forests again, or all if `count` is None."""

    def __init__(self, count: int | None, seed: int) -> None:
        self.count, self.seed = count, seed
        self.rng = np.random.default_rng(seed)
        self.threads = os.cpu_count() or 1
        self.total = self.trained = self.different = 0
        self._chosen: set[Any] = set()
        self._rows: Callable[[Unit, Forest], AllRows] | None = None
        self._findings = Findings()

    def begin(
        self,
        manifest: Mapping[str, Any],
        rows: Callable[[Unit, Forest], AllRows],
        findings: Findings,
    ) -> None:
        """Check that the same versions are installed; `rows` returns the training rows of a unit."""
        made, here = (manifest.get("versions") or {}).get("scikit-learn"), version("scikit-learn")
        if made != here:
            raise BadInput(
                f"--retrain: the run used scikit-learn {made}, here it is {here}; install the same version"
            )
        self._rows, self._findings = rows, findings

    def choose_forests(self, forests: Sequence[tuple[Design, Order]]) -> int:
        """Draw the forests of an audit to train again; return their number."""
        self.total = len(forests)
        count = self.total if self.count is None else min(self.count, self.total)
        self._chosen = {forests[i] for i in self.rng.choice(self.total, count, replace=False)}
        return count

    def choose_units(self, units: Sequence[tuple[str, int]]) -> None:
        """Draw simulations of a sweep, given by their shard and their number of fresh forests.

        A sweep stores one digest per simulation, so that all forests of a simulation are trained again.
        """
        self.total = sum(n for _, n in units)
        left = self.total if self.count is None else self.count
        for i in self.rng.permutation(len(units)):
            if left <= 0:
                break
            self._chosen.add(units[i][0])
            left -= units[i][1]

    def wants(self, design: Design, order: Order) -> bool:
        return (design, order) in self._chosen

    def wants_unit(self, unit: Unit) -> bool:
        return unit.shard in self._chosen

    def train(self, unit: Unit, explained: Forest, design: Design, order: Order) -> Forest:
        assert self._rows is not None
        rows = self._rows(unit, explained)
        self.trained += 1
        try:
            return train_order(explained, rows.X, rows.y, rows.first, design, order, self.threads)
        except ForestError as error:
            raise BadInput(f"--retrain: {error}") from None

    def compare(self, name: str, stored: str | None, again: Forest) -> None:
        """Compare a trained forest with the fingerprint in the manifest."""
        if not self._findings.expect("retrain", f"{name}: fingerprint", stored, again.fingerprint):
            self.different += 1

    def compare_digest(self, shard: str, stored: Any, fingerprints: Sequence[Sequence[str]]) -> None:
        """Compare the forests of a simulation, design by design, with the digest in the manifest."""
        digest = "-".join(joint_fingerprint(one) for one in fingerprints)
        if not self._findings.expect("retrain", f"{shard}: digest of the fresh forests", stored, digest):
            self.different += sum(map(len, fingerprints))

    @property
    def lines(self) -> list[str]:
        """What was trained again, and what a sample of this size finds."""
        if not self.total:
            return ["retrain: the run has no certificates"]
        share = least_share_found(self.total, self.trained)
        return [
            f"retrain: {self.trained:,} of {self.total:,} fresh forests, seed {self.seed}: "
            f"{self.different:,} differ",
            f"retrain: if {100 * share:.3g} % of the forests or more were replaced, "
            "a sample of this size would find one with 95 % confidence",
        ]


def retraining(count: str | None, seed: int | None) -> Retraining | None:
    """Return what `--retrain` asks for: a number of forests or "all"."""
    if count is None:
        return None
    if count != "all" and not (count.isascii() and count.isdigit() and int(count) > 0):
        raise BadInput(f"--retrain is {count!r}; give a number of forests, or all")
    chosen = secrets.randbits(32) if seed is None else seed
    return Retraining(None if count == "all" else int(count), chosen)
