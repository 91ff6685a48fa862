"""The certified method: the nearest point that fresh forests confirm."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from robustcf.certificate.bounds import enough_forests, forests_needed
from robustcf.certificate.design import Design
from robustcf.forest.forest import Voting
from robustcf.methods.base import Method, Setting, check_alpha
from robustcf.thresholds import MAJORITY, Cutoff, as_cutoff

if TYPE_CHECKING:
    from robustcf.certificate.certificate import Test
    from robustcf.methods.family import Family

STEP = 1.25  # each level's excess over the cut-off is so many times that of the level below
REACH = 0.9  # the highest level lies this share of the way from the cut-off to 1


@dataclass(frozen=True)
class Certified(Method):
    """The nearest point that fresh forests confirm: it holds with probability at least 1 - α.

    The method trains fresh forests on the training rows. It searches the nearest point at several levels of
    the score, from a safe level down, and tests each point on certification forests that the search has never
    seen. It returns the last point that passes. The claim: with confidence 1 - δ over the certification
    forests, a forest retrained in the same way accepts this point with probability at least 1 - α.

    A customer for whom no level passes gets the point of the first level tested, marked as not certified.

    Parameters
    ----------
    alpha, delta : float
        A retrained forest may reject the point with probability `alpha`. The certificate may be wrong with
        probability `delta`.
    forests : int
        Number of certification forests.
    pool, pilot : int
        Fresh trees for the search, and fresh trees that choose the levels to test.
    scenario : str
        How forests are retrained: "same-data", "bootstrap", "evolving" or "trees-N".
    test : {"auto", "forests", "trees", "trees-asymptotic"}
        What is counted. "forests" counts forests that agree and is exact for every model. "trees" counts the
        votes of all trees; it is exact for hard votes where trees are independent. "trees-asymptotic" is its
        approximation for soft votes. "auto" takes "trees" where it is exact, else "forests".
    tests : int
        Number of certificates that hold together with confidence 1 - δ. δ is divided by it.
    levels : tuple of float, optional
        Rising scores at which points are searched, in [1/2, 1]. The cut-off is always the lowest level, and
        levels below it are not used.
    joint : bool
        Whether all certificates hold together with confidence 1 - δ. `tests` is then set to their number
        before the first test: that of rejected customers times that of joint methods, in one audit, sweep or
        call of `Explainer.explain_many`.

    Examples
    --------
    >>> Certified(0.05).title
    'Certified, α = 0.05, δ = 0.05'
    >>> Certified(0.05, forests=50, test="forests")
    Traceback (most recent call last):
    ValueError: forests is 50; at alpha = 0.05 and delta = 0.05, at least 59 forests are needed
    """

    alpha: float
    delta: float = 0.05
    forests: int = 100
    pool: int = 300
    pilot: int = 2000
    scenario: str = "same-data"
    test: Literal["auto", "forests", "trees", "trees-asymptotic"] = "auto"
    tests: int = 1
    levels: tuple[float, ...] | None = None
    joint: bool = field(default=False, metadata={"decides": "tests"})
    name = "certified"
    label = "Certified"
    symbol = "δ"
    needs_training = True
    promises = True
    keepable = False
    beta = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not _is_number(self.delta) or not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta!r}; it must lie strictly between 0 and 1")
        if not isinstance(self.scenario, str):
            raise ValueError(f"scenario is {self.scenario!r}; it must be text, such as 'same-data'")
        if isinstance(self.tests, bool) or not isinstance(self.tests, int) or self.tests < 1:
            raise ValueError(f"tests is {self.tests!r}; it must be a whole number of at least 1")
        if not isinstance(self.joint, bool):
            raise ValueError(f"joint is {self.joint!r}; it must be true or false")
        if self.joint and self.tests > 1:
            raise ValueError(f"joint sets the number of tests, but tests is {self.tests:,}; leave one out")
        if self.test not in ("auto", "forests", "trees", "trees-asymptotic"):
            raise ValueError(
                f"test is {self.test!r}; choose among 'auto', 'forests', 'trees' and 'trees-asymptotic'"
            )
        if self.levels is not None:
            _check_levels(self.levels)
            object.__setattr__(self, "levels", tuple(self.levels))
        design = self.design  # checks its numbers
        if self.test == "trees" and design.resamples:
            raise ValueError(
                f"test 'trees' needs independent trees, but scenario {self.scenario!r} resamples the rows of "
                "each forest; use test 'forests'"
            )
        if self.test == "forests" or design.resamples:
            self._check_count()

    def _check_count(self) -> None:
        """Raise a ValueError if the forests are too few to certify, even if all agree."""
        if self.forests < (needed := self.forests_needed):
            shared = f" shared by {self.tests:,} tests" if self.tests > 1 else ""
            raise ValueError(
                f"forests is {self.forests}; at alpha = {self.alpha:g} and delta = {self.delta:g}{shared}, "
                f"at least {needed} forests are needed{f'; {self.granting}' if shared else ''}"
            )

    @property
    def parameter(self) -> float:
        return self.delta

    @property
    def delta_each(self) -> float:
        """The share of δ that one certificate has."""
        return self.delta / self.tests

    @property
    def forests_needed(self) -> int:
        """The least number of certification forests that can certify, all agreeing."""
        return forests_needed(self.alpha, self.delta_each)

    @property
    def granting(self) -> str:
        """How many certification forests grant nearly all certificates, as text."""
        return enough_forests(self.alpha, self.delta_each)

    def shared_by(self, tests: int) -> Certified:
        """Return the method with δ divided by a number of certificates.

        >>> Certified(0.05, forests=600, joint=True).shared_by(1000).tests
        1000
        """
        return replace(self, tests=max(tests, 1), joint=False)

    @property
    def design(self) -> Design:  # type: ignore[override]
        """The fresh forests that the method needs."""
        return Design(self.scenario, self.forests, self.pool, self.pilot)

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        """Return the cut-off: the explained forest accepts the point; the levels are in the certificate."""
        return as_cutoff(cutoff).score

    def path(self, n_trees: int, cutoff: float = 0.5) -> tuple[float, ...]:
        """Return the levels: rising scores, fixed before any certification forest is seen.

        The excess over the cut-off c grows from a fifth of a tree's standard deviation at c, which is
        √(c(1 - c)/N), to 90 % of the way from c to 1.
        """
        if self.levels is not None:
            return (cutoff, *(level for level in self.levels if level > cutoff))
        first = 0.2 * math.sqrt(cutoff * (1 - cutoff)) / math.sqrt(n_trees)
        top = cutoff + REACH * (1 - cutoff)
        count = 1 + max(math.ceil(math.log((top - cutoff) / first) / math.log(STEP)), 0)
        return (cutoff, *(min(cutoff + first * STEP**k, top) for k in range(count)))

    def test_for(self, voting: Voting, n_classes: int) -> Test:
        """Return the test for a voting rule.

        Raises
        ------
        ValueError
            If the test does not fit the voting rule.
        """
        exact = voting == "hard" and n_classes == 2 and not self.design.resamples
        if self.test == "auto":
            return "trees" if exact else "forests"
        if self.test == "trees" and not exact:
            raise ValueError("test 'trees' needs hard votes and two classes; use test 'forests'")
        if self.test == "trees-asymptotic" and voting != "soft":
            raise ValueError("test 'trees-asymptotic' is for soft votes; use test 'trees'")
        return self.test

    def check_forest(self, voting: Voting, n_classes: int) -> None:
        if self.test_for(voting, n_classes) == "forests":
            self._check_count()

    def family(self, setting: Setting) -> Family[Any]:
        from robustcf.methods.certified.family import CertifiedPoints

        return CertifiedPoints(setting, self.design)

    def family_key(self) -> Hashable:
        return (self.name, self.design)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_levels(levels: Any) -> None:
    listed = isinstance(levels, list | tuple) and all(map(_is_number, levels))
    rising = listed and all(a < b for a, b in pairwise(levels))
    if not rising or not levels or not (levels[0] >= 0.5 and levels[-1] <= 1):
        raise ValueError(f"levels is {levels!r}; levels must rise and lie in [1/2, 1]")
