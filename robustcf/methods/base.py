"""What a method is, and what its family of solvers is made from.

A method is a frozen dataclass that says what an explanation must satisfy. It also knows what the rest of
the product needs to know of it: its name and title, the voting it counts, whether it looks at training
rows, and the family that answers it. Values import no solver: a family is imported when it is made.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from robustcf.forest.forest import Forest, Voting
from robustcf.schema.schema import Schema

if TYPE_CHECKING:
    from robustcf.guarantee import Guarantee
    from robustcf.methods.family import Family
    from robustcf.methods.threshold_family import Thresholds
    from robustcf.methods.training import Training


class Method:
    """A demand on the forest's score for the target class, and perhaps on the point's plausibility.

    Subclasses are frozen dataclasses. They set `name`, `label`, `alpha`, `beta` and `parameter`, and
    define `threshold`. A subclass of another package is found by its entry point in the group
    `robustcf.methods`.
    """

    name: ClassVar[str]  # in configs and tables
    label: ClassVar[str]  # in reports and on the terminal
    symbol: ClassVar[str] = "parameter"  # what `parameter` is called in titles
    needs_training: ClassVar[bool] = False
    proves: ClassVar[bool] = True  # False for heuristics, whose points nothing is proved about
    promises: ClassVar[bool] = False  # whether it asks for robustness: a retrained forest should agree
    voting: Voting | None = None  # the votes it counts; None: the explainer's

    # Every method has these three; they tell the rows of a run's tables apart.
    if TYPE_CHECKING:

        @property
        def alpha(self) -> float | None: ...

        @property
        def beta(self) -> float | None: ...

        @property
        def parameter(self) -> float | None: ...

    def threshold(self, n_trees: int) -> float:
        """τ(N, α): the score that the explained forest must give."""
        raise NotImplementedError(f"{type(self).__name__} defines no threshold")

    @property
    def title(self) -> str:
        """The method and its parameters, as people read them."""
        return title(self.label, self.symbol, self.alpha, self.beta, self.parameter)

    def family(self, setting: Setting) -> Family[Any]:
        """Make the solver of this method and of all methods with the same `family_key`."""
        return setting.thresholds(self.voting or setting.voting)

    def family_key(self) -> Hashable:
        """Methods with equal keys are answered together, with shared bounds."""
        return ("thresholds", self.voting)

    def guarantee(self, setting: Setting, numbers: np.ndarray) -> Guarantee | None:
        """Return what is proved about retrained forests for a customer; normally nothing."""
        return None


@dataclass
class Setting:
    """What families are made from: the forest, the schema, and the training rows if there are any."""

    forest: Forest
    schema: Schema
    voting: Voting
    seed: int
    training: Training | None = None
    _thresholds: dict[Voting, Thresholds] = field(default_factory=dict)

    def thresholds(self, voting: Voting | None = None) -> Thresholds:
        """The family that asks for a score and nothing else; compiled once per voting."""
        from robustcf.methods.threshold_family import Thresholds

        chosen = voting or self.voting
        if chosen not in self._thresholds:
            self._thresholds[chosen] = Thresholds(self.forest, self.schema, chosen)
        return self._thresholds[chosen]

    @property
    def rows(self) -> Training:
        """The training rows; the explainer has checked that they are there."""
        assert self.training is not None
        return self.training


def title(label: str, symbol: str, alpha: float | None, beta: float | None, parameter: float | None) -> str:
    """Write a method and its parameters.

    >>> title("Robust-SAA", "parameter", 0.05, 0.1, None)
    'Robust-SAA, α = 0.05, β = 0.1'
    """
    given = (("α", alpha), ("β", beta), (symbol, parameter))
    return ", ".join([label, *(f"{name} = {value:g}" for name, value in given if value is not None)])


def check_alpha(alpha: float) -> None:
    """Refuse a level outside (0, 1/2]."""
    if not 0 < alpha <= 0.5:
        raise ValueError(f"alpha is {alpha}; it must lie in (0, 1/2]")


def check_threshold_method(method: Method) -> None:
    """Refuse a method that cannot set the threshold of another one."""
    if method.needs_training or method.voting is not None:
        raise ValueError(f"{type(method).__name__} sets no threshold; combine Naive, DirectSAA or RobustSAA")
