"""Why a customer is rejected: the features that cost most score.

A feature costs what the score would gain if this feature alone had its best value within the range of the
schema, whatever the customer may change. So immutable features have a cost too, and customers without
recourse have reasons. Features whose effect shows only together with another one cost nothing by this
measure, and so do missing values, which stay missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from robustcf.problem.cells import compile_geometry
from robustcf.problem.moves import moves_of
from robustcf.schema.encode import encode
from robustcf.schema.feature import Value
from robustcf.schema.lifting import constraints_of, lifted
from robustcf.support.tolerances import SAME_SCORE

if TYPE_CHECKING:
    from robustcf.explain.explainer import Explainer
    from robustcf.schema.encode import Row


@dataclass(frozen=True)
class Reason:
    """A feature that costs score.

    - `gain`: by how much the score would rise if this feature alone had the value `best`.
    - `direction`: where `best` lies from the customer's value; "changed" for a category.
    - `changeable`: whether the customer may change the feature at all.
    """

    feature: str
    gain: float
    best: Value
    direction: Literal["up", "down", "changed"]
    changeable: bool


def reasons_of(explainer: Explainer, row: Row) -> tuple[Reason, ...]:
    """Return the features that cost score, the dearest first; none if the decision is favourable.

    Parameters
    ----------
    explainer : Explainer
        Its forest decides; its methods play no role.
    row : mapping
        The customer, in original units.
    """
    customer = explainer.customer(row)
    if customer is None:
        return ()
    schema, forest, own = explainer.schema, explainer.forest, customer.numbers
    free = lifted(schema, constraints_of(schema))
    geometry = compile_geometry(forest, replace(free, links=(), max_changes=None))
    best = moves_of(geometry, own, customer.encoded)
    moves = moves_of(compile_geometry(forest, schema), own, customer.encoded)
    cells = np.flatnonzero(best.allowed[: geometry.start[-1]])  # one number of each cell tells all
    feature_of = np.searchsorted(geometry.start, cells, side="right") - 1
    points = np.tile(own, (len(cells), 1))
    points[np.arange(len(cells)), feature_of] = best.number[cells]
    scores = forest.score(encode(schema, np.vstack([own, points])), customer.target, explainer.voting)
    found = []
    for j, feature in enumerate(schema.features):
        mine = feature_of == j
        gains = scores[1:][mine] - scores[0]
        if gains.max(initial=0.0) <= SAME_SCORE:
            continue
        numbers = points[mine, j][gains >= gains.max() - SAME_SCORE]
        nearest = float(numbers[np.abs(numbers - own[j]).argmin()])
        direction: Literal["up", "down", "changed"] = "changed"
        if feature.ordered:
            direction = "up" if nearest > own[j] else "down"
        here = slice(int(geometry.start[j]), int(geometry.start[j + 1]))
        changeable = bool(moves.allowed[here].sum() > 1)
        found.append(Reason(feature.name, float(gains.max()), feature.value(nearest), direction, changeable))
    return tuple(sorted(found, key=lambda reason: -reason.gain))  # stable: ties keep the schema's order
