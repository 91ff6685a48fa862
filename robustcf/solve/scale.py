"""Scale costs so that absolute tolerances act as relative ones.

A schema may give a feature the weight 1e-10, or a range up to 1e12. The relevant costs are then smaller than
any fixed tolerance. Engines therefore multiply the costs so that the best known choice costs between 1 and 2.
The factor is a power of two, so scaling and unscaling are exact.
"""

from __future__ import annotations

import math

from robustcf.problem.problem import Problem

_MOST = 900  # exponent; keeps sums of scaled costs finite


def factor_for(reference: float) -> float:
    """Return the power of two that brings a cost into [1, 2).

    It is 1 if the cost is zero or infinite.

    >>> factor_for(0.3), factor_for(5.0), factor_for(0.0)
    (4.0, 0.25, 1.0)
    """
    if not 0.0 < reference < math.inf:
        return 1.0
    return math.ldexp(1.0, max(-_MOST, min(_MOST, 1 - math.frexp(reference)[1])))


def scaled(problem: Problem, factor: float) -> Problem:
    """Return the same problem with all costs multiplied by the factor."""
    return problem if factor == 1.0 else problem._replace(cost=problem.cost * factor)
