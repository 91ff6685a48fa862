"""All tolerances of the library, with the reason for each, and the test of a score.

Engines, checks, `assess`, `judge` and `verify` take their tolerances from here. A claim such as "optimal"
or "reaches the threshold" therefore has one meaning everywhere. Numbers that only steer a search, such as
budgets and weights, stay in their modules.

Compiled functions contain these numbers, and numba does not notice a change of this file: after one, delete
the `__pycache__` folders.
"""

from __future__ import annotations

from typing import Any

# Scores and decisions
SCORE_ROUNDING = 1e-12  # per tree: a mean over trees differs by less if it is summed in another order
TIE_MARGIN = 1e-9  # soft votes this close to a tie: the order of summation decides who wins
WHOLE_VOTES = 1e-9  # N·τ this far above a whole number of votes is that number, by rounding
DISTINCT_VOTES = 1e-12  # smaller than the difference between two shares of hard votes
EXACT_TIE = 1e-12  # soft votes this close are equal: a mean over 1,000 trees is rounded by less
SAME_SCORE = 1e-9  # a model's score and its forest's: sums over trees in different orders differ by less
READ_SCORE = 1e-12  # a model that was read from a file must reproduce its scores on random rows this exactly
CLASS_FRACTIONS = 1e-9  # a leaf's class fractions must add up to 1 this closely

# Costs and distances
COST_ROUNDING = 1e-12  # relative: sums of the same costs in another order differ by less
SAME_OBJECTIVE = 1e-9  # relative: an objective and its recomputation from the point agree this closely
STEP_ROUNDING = 1e-9  # in steps: 0.3 is a multiple of 0.1, although floating-point numbers deny it
DELTA_ROUNDING = 1e-12  # relative: a stored difference of two numbers and its recomputation

# robustcf's own engine
LEAST_SAVING = 1e-10  # in scaled costs or votes: smaller savings are below the bounds' own rounding
MISSING_VOTES = 1e-6  # in votes: a bound that lacks more proves that the demand is out of reach
LEAST_GAIN = 1e-12  # in shares of a demand: a smaller gain of votes is rounding
FREE_MOVE = 1e-9  # of the dearest option: cheaper moves count as this cheap, so that no gain is divided by 0
DECIDED = 1e-6  # an answer of the linear relaxation this close to 0 or 1 is decided

# Other solvers
SOLVER_FEASIBILITY = 1e-9  # how exactly HiGHS and Gurobi satisfy rows and integrality; their strictest value
SCORE_ROW_SLACK = 1e-7  # in votes: slack of score rows, above the solvers' own; exact counts judge the points
SOLVER_GAP = 1e-6  # relative: if a solver's optimum and bound differ by more, it stopped at a gap
COARSE_COST = 1e-3  # scaled optima below this are solved again at their own scale: solvers are too coarse

# Isolation forests
PATH_MARGIN = 1e-9  # summed path lengths this close to the bound: the order of summation decides

# Local outlier factor
NEAREST_TIE = 1e-8  # of the largest weight: rows this close to the nearest count as nearest
NEAREST_ROUNDING = 1e-9  # of the largest weight: rounding of a distance between rows
LOF_CLOSED = 1e-9  # relative: a bound this close to the best value proves it; penalties are quotients
LOF_LEAST_ROOM = 1e-9  # of the largest weight: least range of a program's penalty column
WHOLE_WEIGHT = 1e-7  # a weight of the integer program this close to 1 is 1, by the solver's integrality
LOF_BOUND_ROUNDING = 1e-6  # relative: how far the solver's optimum may lie above its own bound

# Checks of finished runs, which must not accuse a correct run
CHECKED_COLUMN = 1e-9  # a stored number and its recomputation in another order
CHECKED_SUMMARY = 1e-9  # relative: a summary's means are sums of many numbers in any order
CHECKED_ZERO = 1e-12  # absolute: numbers this small are equal to 0
CHECKED_PREDICTION = 1e-6  # predicted validities use distribution functions of other libraries
CHEAPER = 1e-6  # relative: a witness must be cheaper than the claimed cost by this margin
WITNESS_VOTES = 1e-7  # in votes: a witness's margin in the integer program, well above SOLVER_FEASIBILITY
PATH_BLUR = 1e-6  # path lengths are sums of logarithms: within this distance of the bound, rounding decides


def reached(score: Any, threshold: Any, n_trees: Any) -> Any:
    """Whether a forest's score reaches a threshold; works on numbers and on arrays.

    A score that lies below the threshold by rounding alone reaches it. The engine's fixed-point votes are
    exact to 1.5 / 2**40 < 2 * SCORE_ROUNDING, so a stricter test would reject its own answers.

    >>> reached(0.586 - 1e-11, 0.586, 100), reached(0.586 - 1e-9, 0.586, 100)
    (True, False)
    """
    return score >= threshold - SCORE_ROUNDING * n_trees
