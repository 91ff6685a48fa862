"""Costs in units of the best known choice, so that absolute tolerances act as relative ones.

A schema may weigh a feature with 1e-10, or give it a range up to 1e12. All interesting costs are then smaller
than any fixed tolerance. Engines therefore multiply the costs so that the best known choice costs between 1
and 2. The factor is a power of two: the products are exact, and so is the way back.
"""

from __future__ import annotations

import math

from robustcf.problem.problem import Problem

_MOST = 900  # exponent; keeps sums of scaled costs finite


def factor_for(reference: float) -> float:
    """The power of two that brings a cost into [1, 2); 1 where the cost is zero or infinite.

    >>> factor_for(0.3), factor_for(5.0), factor_for(0.0)
    (4.0, 0.25, 1.0)
    """
    if not 0.0 < reference < math.inf:
        return 1.0
    return math.ldexp(1.0, max(-_MOST, min(_MOST, 1 - math.frexp(reference)[1])))


def scaled(problem: Problem, factor: float) -> Problem:
    """The same problem with all costs multiplied."""
    return problem if factor == 1.0 else problem._replace(cost=problem.cost * factor)
