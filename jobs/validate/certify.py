"""Certificates for points made by any tool: one exact test per point and scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustcf.certificate.bounds import enough_forests, forests_needed, lower_bound
from robustcf.certificate.certificate import claim
from robustcf.forest.forest import Forest
from robustcf.validate import Scenario

from ..inputs.config import Validation
from ..inputs.errors import BadInput
from ..run.columns import CERTIFICATE
from .forests import Scenarios

CERTIFICATE_COLUMNS = [
    CERTIFICATE[part] for part in ("certified", "agree", "forests", "lower_bound", "delta")
]


@dataclass(frozen=True)
class Certifying:
    """The error probabilities of a certificate.

    If `joint`, all certificates of the table hold together with confidence 1 - δ. `tests` is their number.
    """

    alpha: float
    delta: float
    joint: bool = False
    tests: int = 1

    @property
    def delta_each(self) -> float:
        """The share of δ that one certificate has."""
        return self.delta / self.tests

    def settled(self, points: int, validation: Validation) -> Certifying:
        """Return this with δ divided among the points and scenarios, if the certificates are joint.

        Refuse too few forests, before any is trained.
        """
        if not self.joint:
            return self
        settled = replace(self, tests=max(points * len(validation.scenarios), 1))
        settled.check(validation)
        return settled

    def check(self, validation: Validation) -> None:
        """Refuse what can certify nothing."""
        if not 0 < self.delta < 1:
            raise BadInput(f"--delta is {self.delta}; it must lie strictly between 0 and 1")
        needed = forests_needed(self.alpha, self.delta_each)
        if validation.forests < needed:
            shared = f" shared by {self.tests:,} tests" if self.tests > 1 else ""
            more = f"; {enough_forests(self.alpha, self.delta_each)}" if shared else ""
            raise BadInput(
                f"--forests is {validation.forests}; at alpha = {self.alpha:g} and delta = {self.delta:g}"
                f"{shared}, a certificate needs at least {needed}{more}"
            )
        for name in validation.scenarios:
            if Scenario.parse(name).rows == "all":
                raise BadInput(
                    f"--scenario {name} needs the rows collected later; certify the points in Python with "
                    "rc.certify(..., later=...)"
                )

    def columns(self, valid: np.ndarray) -> dict[str, Any]:
        """Return a point's certificate, given which certification forests agree."""
        agree, forests = int(valid.sum()), len(valid)
        bound = lower_bound(agree, forests, self.delta_each)
        parts = (bound >= 1 - self.alpha, agree, forests, bound, self.delta_each)
        return {column.name: value for column, value in zip(CERTIFICATE_COLUMNS, parts, strict=True)}

    def claims(self, table: pa.Table, n_trees: int) -> list[str]:
        """Return one line per scenario: how many points are certified, and what that claims."""
        found = []
        for name in table["scenario"].drop_null().unique().to_pylist():
            own = table.filter(pc.equal(table["scenario"], name))["certified"]
            size = Scenario.parse(name).n_trees or n_trees
            sentence = claim(self.alpha, self.delta_each, name, size, tests=self.tests)
            found.append(f"{pc.sum(own).as_py()} of {len(own)} points certified for {name}: {sentence}")
        return found


def refuse_equal(scenarios: Scenarios, fingerprints: Sequence[str]) -> None:
    """Refuse scenarios in which retraining changes nothing: a certificate would be vacuous."""
    start = 0
    for name, seeds in zip(scenarios.names, scenarios.seeds, strict=True):
        own = fingerprints[start : start + len(seeds)]
        start += len(seeds)
        if len(own) > 1 and len(set(own)) == 1:
            raise BadInput(
                f"--scenario {name}: retraining with another seed gives the same forest, so a certificate "
                "would say nothing; use --scenario bootstrap"
            )


def fingerprints_of(forests: Sequence[Forest]) -> list[str]:
    return [forest.fingerprint for forest in forests]
