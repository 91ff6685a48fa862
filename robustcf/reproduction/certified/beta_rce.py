"""The rule of BetaRCE on our candidates: the same models judge each, and the first pass wins.

Stępka, Lango and Stefanowski, "Counterfactual explanations with probabilistic guarantees on their robustness
to model change" (KDD 2025).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scipy.special import betaincinv

from robustcf.explain import Explainer
from robustcf.forest.forest import Voting
from robustcf.methods.certified.ladder import Ladder, Pool
from robustcf.methods.certified.method import Certified
from robustcf.methods.family import Customer, Tools
from robustcf.methods.thresholds import Naive
from robustcf.reproduction.certified.design import ALPHAS
from robustcf.reproduction.certified.setting import Setting, true_validity
from robustcf.schema.encode import encode, read_rows
from robustcf.solve import Limits, get_engine

JUDGES = 32  # retrained models
CREDENCE = 0.95


def passes(agreeing: int, alpha: float) -> bool:
    """Whether the 0.95 credible lower bound of the validity, with a uniform prior, reaches 1 - α.

    >>> passes(32, 0.1), passes(31, 0.1), passes(32, 0.05)
    (True, False, False)
    """
    return bool(betaincinv(1 + agreeing, 1 + JUDGES - agreeing, 1 - CREDENCE) >= 1 - alpha)


def beta_rce(setting: Setting, voting: Voting, time_limit: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row, result) for each row and α. The candidates are our nearest points at rising levels."""
    thresholds = Explainer(setting.forest, setting.schema, Naive(), voting=voting).setting.thresholds()
    pool, path = Pool(thresholds), Certified(0.05).path(len(setting.forest))
    numbers = read_rows(setting.schema, setting.rows, missing=setting.forest.accepts_missing).numbers
    encoded = encode(setting.schema, numbers)
    predicted = setting.forest.predict(encoded, voting)
    for i, name in enumerate(setting.names):
        target = setting.forest.classes[1 - predicted[i]]
        tools = Tools(get_engine("auto"), Limits(time_limit))
        ladder = Ladder(pool, Customer(numbers[i], encoded[i], target), tools)
        for alpha in ALPHAS:
            given = None
            for level in path:
                point = ladder.encoded(ladder.at(level))
                if point is None:
                    break
                agree = setting.fresh[0].certification.agree(point, target, voting)
                if passes(int(agree[:JUDGES].sum()), alpha):
                    given = point, ladder.at(level).objective
                    break
            yield (
                name,
                {
                    "method": "beta-rce",
                    "alpha": alpha,
                    "status": "no point" if given is None else "given",
                    "distance": None if given is None else given[1],
                    "validity": None if given is None else true_validity(setting, given[0], target, voting),
                    "certified": given is not None,
                },
            )
