"""The base class of all methods, and the inputs of their families.

A method is a frozen dataclass that says what an explanation must satisfy. It also carries its name and title,
the voting that it counts, whether it uses training rows, and the family that solves it. Methods import no
solver: a family is imported only when it is built.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from robustcf.forest.forest import Forest, Label, Voting
from robustcf.schema.schema import Schema
from robustcf.thresholds import MAJORITY, Cutoff

if TYPE_CHECKING:
    from robustcf.certificate.design import Design
    from robustcf.certificate.fresh import FreshForests
    from robustcf.guarantee import Guarantee
    from robustcf.methods.family import Family
    from robustcf.methods.threshold_family import Thresholds
    from robustcf.methods.training import Training


class Method:
    """A demand on the target class's score, and possibly on the point's plausibility.

    Subclasses are frozen dataclasses. They set `name`, `label`, `alpha`, `beta` and `parameter`, and
    define `threshold`. Another package registers its subclass with an entry point in the group
    `robustcf.methods`.
    """

    name: ClassVar[str]  # in configs and tables
    label: ClassVar[str]  # in reports and on the terminal
    symbol: ClassVar[str] = "parameter"  # the name of `parameter` in titles
    needs_training: ClassVar[bool] = False
    proves: ClassVar[bool] = True  # False for heuristics, which prove nothing
    promises: ClassVar[bool] = False  # whether it aims at robustness against retraining
    independent: ClassVar[bool] = False  # whether its threshold holds only for independently trained trees
    voting: Voting | None = None  # the votes it counts; None means the explainer's
    design: Design | None = None  # the fresh forests that it needs
    joint: bool = False  # whether the certificates of all customers hold together, see `Certified`
    keepable: ClassVar[bool] = True  # whether an earlier point that passes its checks is an answer

    # Every method has these three; they identify its rows in a run's tables.
    if TYPE_CHECKING:

        @property
        def alpha(self) -> float | None: ...

        @property
        def beta(self) -> float | None: ...

        @property
        def parameter(self) -> float | None: ...

    @property
    def needs_later_rows(self) -> bool:
        """Whether rows collected after the explained forest's training determine its answers."""
        return self.design is not None and self.design.needs_later_rows

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        """Return τ(N, α) (eq. 5): the score that the explained forest must give.

        `cutoff` is the score at which forests decide for the target.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define threshold()")

    @property
    def title(self) -> str:
        """The method and its parameters as text for people."""
        return title(self.label, self.symbol, self.alpha, self.beta, self.parameter)

    def family(self, setting: Setting) -> Family[Any]:
        """Build the solver of this method and of all methods with the same `family_key`."""
        return setting.thresholds(self.voting or setting.voting)

    def family_key(self) -> Hashable:
        """Return the key of the family; methods with equal keys are solved together."""
        return ("thresholds", self.voting)

    @property
    def has_alternatives(self) -> bool:
        """Whether every point with the score is an answer, so that alternatives can be found."""
        return self.family_key() == ("thresholds", self.voting)

    def check_forest(self, voting: Voting, n_classes: int) -> None:
        """Raise a ValueError if the method does not fit how a forest votes; most methods always do."""

    def shared_by(self, tests: int) -> Method:
        """Return the method with δ divided by a number of certificates; most methods have no δ."""
        return self

    def guarantee(self, setting: Setting, numbers: np.ndarray, target: Label) -> Guarantee | None:
        """Return the proved guarantee about retrained forests; most methods have none."""
        return None


@dataclass
class Setting:
    """The inputs of every family: forest, schema, voting, seed and training rows."""

    forest: Forest
    schema: Schema
    voting: Voting
    seed: int
    training: Training | None = None
    threads: int = 1
    fresh: Sequence[FreshForests] = ()  # for certificates; missing ones are trained when needed
    _thresholds: dict[Voting, Thresholds] = field(default_factory=dict)

    def thresholds(self, voting: Voting | None = None) -> Thresholds:
        """Return the family of score thresholds; it is built once per voting."""
        from robustcf.methods.threshold_family import Thresholds

        chosen = voting or self.voting
        if chosen not in self._thresholds:
            self._thresholds[chosen] = Thresholds(self.forest, self.schema, chosen)
        return self._thresholds[chosen]

    def fresh_forests(self, design: Design) -> FreshForests:
        """Return the fresh forests of a design; train them if they were not given."""
        from robustcf.certificate.fresh import train_for_explainer

        for given in self.fresh:
            if given.design == design:
                return given
        return train_for_explainer(self.forest, self.rows.X, self.rows.y, design, self.seed, self.threads)

    @property
    def rows(self) -> Training:
        """The training rows; the explainer has checked that they were given."""
        assert self.training is not None
        return self.training


def refuse_dependent_trees(methods: Sequence[Method], forest: Forest, voting: Voting) -> None:
    """Raise a ValueError if a method does not fit a boosted model, whose trees correct each other."""
    if forest.boosting is None:
        return
    if voting == "hard":
        raise ValueError("the trees of a boosted model have no votes; use voting = 'soft'")
    for method in methods:
        inner = getattr(method, "method", method)
        if inner.independent or inner.design is not None:
            raise ValueError(
                f"{inner.label} needs trees that are trained independently, and the trees of a boosted model "
                "correct each other; use Naive or Margin, and measure or certify the points by refitting the "
                "model (docs/your-own-model.md)"
            )


def title(label: str, symbol: str, alpha: float | None, beta: float | None, parameter: float | None) -> str:
    """Return the title of a method with its parameters.

    >>> title("Robust-SAA", "parameter", 0.05, 0.1, None)
    'Robust-SAA, α = 0.05, β = 0.1'
    """
    given = (("α", alpha), ("β", beta), (symbol, parameter))
    return ", ".join([label, *(f"{name} = {value:g}" for name, value in given if value is not None)])


def keyed_title(name: str, alpha: float | None, beta: float | None, parameter: float | None = None) -> str:
    """Return a method with its parameters as configs and tables name them.

    >>> keyed_title("robust-saa", 0.05, 0.1)
    'robust-saa alpha=0.05 beta=0.1'
    """
    given = (("alpha", alpha), ("beta", beta), ("parameter", parameter))
    return " ".join([name, *(f"{key}={value:g}" for key, value in given if value is not None)])


def check_alpha(alpha: float) -> None:
    """Raise a ValueError unless alpha lies in (0, 1/2]."""
    if not 0 < alpha <= 0.5:
        raise ValueError(f"alpha is {alpha}; it must lie in (0, 1/2]")


def check_threshold_method(method: Method) -> None:
    """Raise a ValueError unless a method can set the threshold of another one."""
    if method.needs_training or method.voting is not None or method.parameter is not None:
        raise ValueError(
            f"method is {type(method).__name__}, which cannot set the threshold; "
            "use Naive, DirectSAA or RobustSAA"
        )
