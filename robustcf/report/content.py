"""What a report shows, as plain values: counts, means with intervals, and text as it came from the data.

Nothing in here is HTML. Whoever fills these values does not escape them; `page.py` does, everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SMALL = 30  # answers below which a group's mean is marked as one of a small group


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; None where there is nothing to tell."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Outcomes:
    """The denied customers by what is known of them; the three add up to all of them."""

    question: str
    reached: int
    none: int
    unresolved: int

    @property
    def total(self) -> int:
        return self.reached + self.none + self.unresolved


@dataclass(frozen=True)
class Validity:
    """How often a method's answers hold when the forest is trained again, under one scenario."""

    scenario: str
    all: Estimate
    reached: float | None
    pareto: bool


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

    def under(self, scenario: str) -> Validity | None:
        return next((v for v in self.validity if v.scenario == scenario), None)

    @property
    def ratio(self) -> float | None:
        """Distance over the naive one, on the same customers."""
        if self.naive or not self.naive_paired or self.distance_paired is None:
            return None
        return self.distance_paired / self.naive_paired


@dataclass(frozen=True)
class Use:
    """How one method uses a feature: in how many answers, and by how much on average."""

    method: str
    answers: int
    of: int
    typical: str

    @property
    def share(self) -> float:
        return self.answers / self.of if self.of else 0.0


@dataclass(frozen=True)
class Lever:
    """A feature, and how each method uses it (in the order of the methods)."""

    label: str
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class Group:
    """One value of a cohort column under one method."""

    cohort: str
    value: str
    method: str
    seen: int
    denied: int
    answers: int
    none: int
    distance: Estimate
    validity: Estimate

    @property
    def small(self) -> bool:
        return self.answers < SMALL


@dataclass(frozen=True)
class Population:
    """Customers that one forest, or one set of simulations, decided on."""

    name: str
    seen: int
    favourable: int
    invalid: int
    denied: int
    any: Outcomes
    robust: Outcomes | None
    headline: str | None  # title of the method behind `robust`
    methods: tuple[MethodLine, ...]
    levers: tuple[Lever, ...] = ()
    groups: tuple[Group, ...] = ()
    groups_left_out: int = 0
    n_classes: int = 2  # with more, half of the votes is more than the decision needs

    def method(self, title: str | None) -> MethodLine | None:
        return next((m for m in self.methods if m.title == title), None)

    @property
    def naive(self) -> MethodLine | None:
        return next((m for m in self.methods if m.naive), None)

    @property
    def robust_method(self) -> MethodLine | None:
        return self.method(self.headline)

    @property
    def compared(self) -> tuple[str, ...]:
        """The methods that stand for the run in figures: the naive one beside the headline."""
        both = (self.naive, self.robust_method)
        return tuple(m.title for m in both if m is not None) or tuple(m.title for m in self.methods[:1])

    def groups_by(self, cohort: str) -> list[list[Group]]:
        """The compared methods' lines for each value of a cohort column, in the order of `groups`."""
        by_value: dict[str, list[Group]] = {}
        for group in self.groups:
            if group.cohort == cohort and group.method in self.compared:
                by_value.setdefault(group.value, []).append(group)
        return list(by_value.values())

    @property
    def cohorts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(g.cohort for g in self.groups))

    @property
    def some_fall_short(self) -> bool:
        """Whether means also cover points that only come as near to a threshold as they can."""
        return any(m.outcomes.none for m in self.methods)

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v.scenario for m in self.methods for v in m.validity))


@dataclass(frozen=True)
class Advice:
    """One method's answer to one customer, in the customer's own units."""

    method: str
    status: str
    reason: str | None
    changes: tuple[tuple[str, str, str], ...]  # label, from, to
    distance: float | None
    score: float | None
    threshold: float | None
    gap: float | None
    predicted: float | None
    held: tuple[tuple[str, int, int], ...] = ()  # scenario, forests that agree, forests
    best_score: float | None = None


@dataclass(frozen=True)
class Customer:
    """One customer of the sample."""

    name: str
    population: str
    score: float | None
    cohorts: tuple[tuple[str, str], ...]
    advice: tuple[Advice, ...]

    @property
    def same_for_all(self) -> bool:
        """Whether every method ended in the same way, without a point."""
        first = self.advice[0]
        return all(
            (a.status, a.reason) == (first.status, first.reason) and not a.changes for a in self.advice
        )

    @property
    def outcome(self) -> str:
        """`answered` by every method, `none` proved for one of them, else `open`."""
        statuses = {a.status for a in self.advice}
        if statuses & {"timeout", "error"}:
            return "open"
        return "none" if "no_recourse" in statuses else "answered"


@dataclass(frozen=True)
class Row:
    """One row worth looking at: slow, or without a full answer."""

    name: str
    population: str
    method: str
    status: str
    reason: str | None
    seconds: float | None
    nodes: int | None
    gap: float | None
    solver: str | None


@dataclass(frozen=True)
class Survival:
    """Recourses of the earlier run, and how many of them the new forest still grants."""

    method: str
    given: int
    survived: int
    interval: Estimate


@dataclass(frozen=True)
class Since:
    """What changed since the previous run; `problem` says why a part is missing."""

    run: str
    problem: str | None = None
    same: tuple[tuple[str, bool], ...] = ()  # what (forest, rows, ...), and whether it is the same
    survival: tuple[Survival, ...] = ()
    copied: int = 0
    solved: int = 0
    customers: Mapping[str, int] = field(default_factory=dict)  # new, gone, changed, unchanged
    moves: tuple[tuple[str, str, int], ...] = ()  # state then, state now, customers in both
    question: str = ""  # what the states are about
    settings: tuple[tuple[str, str, str], ...] = ()  # key, then, now
    figures: tuple[
        tuple[str, Estimate, Estimate, Estimate, Estimate], ...
    ] = ()  # method, distance and validity


@dataclass(frozen=True)
class Doubts:
    """Counts behind the section on what is not proved; rows, not customers."""

    feasible: int = 0
    worst_gap: float | None = None
    kept: int = 0
    relaxed: int = 0
    heuristic: int = 0
    timeout: int = 0
    error: int = 0
    invalid: int = 0
    unverified: int = 0
    open_best_scores: int = 0
    measured: bool = False
    forests: int = 0
    validity_interval: str = ""
    distance_interval: str = ""
    soft: bool = True


@dataclass(frozen=True)
class Report:
    """Everything on the page."""

    kind: str  # audit or sweep
    run: str
    made: str
    state: str
    target: str | None
    populations: tuple[Population, ...]
    customers: tuple[Customer, ...]
    denied: int  # whom the sample stands for
    slow: tuple[Row, ...]
    failed: tuple[Row, ...]
    failed_total: int
    doubts: Doubts
    since: Since | None
    settings: tuple[tuple[str, str], ...]
    hashes: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
