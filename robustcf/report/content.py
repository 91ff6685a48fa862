"""The values of a report: counts, means with intervals, and text from the data.

Nothing here is HTML. These values hold unescaped text; `page.py` escapes all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from robustcf.report.method_line import Estimate, MethodLine, Outcomes

if TYPE_CHECKING:
    from robustcf.report.differences import Differences

SMALL = 30  # a group with fewer answers is marked as small


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
    """A feature and how each method uses it, in the order of the methods."""

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
    """The customers of one forest or of one set of simulations."""

    name: str
    seen: int
    favourable: int
    invalid: int
    denied: int
    any: Outcomes
    strict: Outcomes | None
    headline: str | None  # title of the method behind `strict`
    methods: tuple[MethodLine, ...]
    levers: tuple[Lever, ...] = ()
    groups: tuple[Group, ...] = ()
    groups_left_out: int = 0
    means_of_all_points: bool = False  # also of points below the threshold, as in the paper's experiment
    decision: str | None = None  # the model's cut-off, as a sentence
    fully_grown: bool = False  # whether nothing limits the growth of the forest's trees
    differences: Differences | None = None  # between groups, for the strictest method

    def method(self, title: str | None) -> MethodLine | None:
        return next((m for m in self.methods if m.title == title), None)

    @property
    def naive(self) -> MethodLine | None:
        return next((m for m in self.methods if m.naive), None)

    @property
    def strict_method(self) -> MethodLine | None:
        return self.method(self.headline)

    @property
    def compared(self) -> tuple[str, ...]:
        """The methods that figures compare: naive and the headline method."""
        both = (self.naive, self.strict_method)
        return tuple(m.title for m in both if m is not None) or tuple(m.title for m in self.methods[:1])

    def groups_by(self, cohort: str) -> list[list[Group]]:
        """Return the compared methods' lines per value of a cohort column, in the order of `groups`."""
        by_value: dict[str, list[Group]] = {}
        for group in self.groups:
            if group.cohort == cohort and group.method in self.compared:
                by_value.setdefault(group.value, []).append(group)
        return list(by_value.values())

    @property
    def cohorts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(g.cohort for g in self.groups))

    @property
    def certified_methods(self) -> tuple[MethodLine, ...]:
        return tuple(m for m in self.methods if m.certificates is not None)

    @property
    def held_scenarios(self) -> list[str]:
        """The headings of the columns that compare certificates with validation."""
        return [f"held, {scenario}" for scenario in self.scenarios]

    @property
    def some_fall_short(self) -> bool:
        """Whether means include points that do not reach the threshold."""
        return self.means_of_all_points and any(m.outcomes.none for m in self.methods)

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v.scenario for m in self.methods for v in m.validity))


@dataclass(frozen=True)
class Advice:
    """One method's answer for one customer, in original units."""

    method: str
    status: str
    reason: str | None
    changes: tuple[tuple[str, str, str], ...]  # label, from, to
    distance: float | None
    score: float | None
    threshold: float | None
    gap: float | None
    predicted: float | None
    held: tuple[tuple[str, int, int], ...] = ()  # scenario, forests that accept it, all forests
    best_score: float | None = None
    certificate: str | None = None  # its outcome in one sentence
    certified: bool = False


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
        """Whether every method has the same status and reason, and none has a change."""
        first = self.advice[0]
        return all(
            (a.status, a.reason) == (first.status, first.reason) and not a.changes for a in self.advice
        )

    @property
    def outcome(self) -> str:
        """`open` if a method failed, else `none` if one has no recourse, else `answered`."""
        statuses = {a.status for a in self.advice}
        if statuses & {"timeout", "error"}:
            return "open"
        return "none" if "no_recourse" in statuses else "answered"


@dataclass(frozen=True)
class Row:
    """One row to inspect: slow, or without a complete answer."""

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
    """How many recourses of the previous run the new forest still accepts."""

    method: str
    given: int
    survived: int
    interval: Estimate


@dataclass(frozen=True)
class Since:
    """What changed since the previous run; `problem` says why a part is missing."""

    run: str
    problem: str | None = None
    same: tuple[tuple[str, bool], ...] = ()  # name (forest, data, ...) and whether it is the same
    survival: tuple[Survival, ...] = ()
    copied: int = 0
    solved: int = 0
    customers: Mapping[str, int] = field(default_factory=dict)  # new, gone, changed, unchanged
    moves: tuple[tuple[str, str, int], ...] = ()  # previous state, current state, number of customers
    question: str = ""  # the method that the states refer to
    settings: tuple[tuple[str, str, str], ...] = ()  # key, previous value, current value
    figures: tuple[
        tuple[str, Estimate, Estimate, Estimate, Estimate], ...
    ] = ()  # method, distance and validity


@dataclass(frozen=True)
class Doubts:
    """Numbers of rows (not customers) for the section on what is not proved."""

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
    certified: int = 0


@dataclass(frozen=True)
class AlarmLine:
    """A limit of the run: its state (ok, warn, fail) and what was measured, as a sentence."""

    state: str
    text: str


@dataclass(frozen=True)
class Report:
    """All values of the page."""

    kind: str  # audit or sweep
    run: str
    made: str
    state: str
    target: str | None
    populations: tuple[Population, ...]
    customers: tuple[Customer, ...]
    denied: int  # all denied customers; `customers` is a sample of them
    slow: tuple[Row, ...]
    failed: tuple[Row, ...]
    failed_total: int
    doubts: Doubts
    since: Since | None
    settings: tuple[tuple[str, str], ...]
    hashes: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    alarms: tuple[AlarmLine, ...] = ()
