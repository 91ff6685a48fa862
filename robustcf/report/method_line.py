"""One method of a report: its outcomes, its measured validity and its certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from robustcf.certificate.certificate import together


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; None where it is unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Outcomes:
    """Denied customers by outcome: answer found, proved to have none, or unresolved.

    If the question asks for a certificate, `uncertified` customers have an answer without one.
    """

    question: str
    reached: int
    none: int
    unresolved: int
    uncertified: int = 0

    @property
    def total(self) -> int:
        return self.reached + self.none + self.unresolved + self.uncertified


@dataclass(frozen=True)
class Validity:
    """How often retrained forests accept a method's answers, under one scenario."""

    scenario: str
    all: Estimate
    reached: Estimate  # only answers that reach the method's threshold
    pareto: bool
    held: Estimate = field(default_factory=Estimate)  # only certified answers


@dataclass(frozen=True)
class Certificates:
    """The certificates of one method: how many, and what they claim.

    `claim`, `forests` and the following are None if no answer was tested.
    """

    recourse: int
    certified: int
    claim: str | None = None
    forests: int | None = None
    delta: float | None = None
    tests: int = 1  # certificates that hold together with confidence 1 - δ
    scenario: str | None = None

    @property
    def uncertified(self) -> int:
        return self.recourse - self.certified

    @property
    def together(self) -> str:
        """What holds for all certificates that share δ."""
        return together(self.delta or 0.0, self.tests)


@dataclass(frozen=True)
class MethodLine:
    """One method of a population."""

    title: str
    naive: bool
    alpha: float | None
    threshold: float | None
    statuses: Mapping[str, int]
    outcomes: Outcomes
    distance: Estimate
    changed: float | None
    pairs: int  # customers who have both this answer and the naive one
    distance_paired: float | None
    naive_paired: float | None
    predicted: float | None
    validity: tuple[Validity, ...]
    seconds_median: float | None
    seconds_p95: float | None
    promises: bool = False  # whether it aims at a validity of 1 - α
    certificates: Certificates | None = None

    def under(self, scenario: str) -> Validity | None:
        return next((v for v in self.validity if v.scenario == scenario), None)

    @property
    def promised(self) -> Estimate:
        """The measured validity of the answers that the method's promise is about."""
        if self.certificates is not None:
            own = self.under(self.certificates.scenario or "")
            return Estimate() if own is None else own.held
        own = self.under("same-data")
        return Estimate() if own is None else own.reached

    @property
    def falls_short(self) -> bool:
        """Whether the measured validity lies significantly below the target 1 - α."""
        high = self.promised.high
        return self.promises and self.alpha is not None and high is not None and high < 1 - self.alpha

    @property
    def is_robust(self) -> bool:
        """Whether a measurement or certificates confirm the target 1 - α."""
        if self.falls_short or not self.promises or self.alpha is None:
            return False
        value = self.promised.value
        return self.certificates is not None or (value is not None and value >= 1 - self.alpha)

    @property
    def ratio(self) -> float | None:
        """Mean distance divided by the naive mean distance, on the same customers."""
        if self.naive or not self.naive_paired or self.distance_paired is None:
            return None
        return self.distance_paired / self.naive_paired
