"""A solver plugin for the tests: our own engine, poisoned by a few problems.

A problem is poisoned or not by its own bytes, so every process agrees on which rows are. What
happens there is in the environment variable POISON: "crash", "hang", "memory", "any" (a crash or a
hang, by the problem), "slow" (a second of sleep) or "mark", a plain exception, which shows a test the rows
without harm. POISON_SHARE says which share of problems it is.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from typing import Any

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.solve import BestScore, Limits, Solution, get_engine

SHARE = int(os.environ.get("POISON_SHARE", "30"))  # one problem of so many is poisoned
DEEDS = ("crash", "hang")


class Marked(Exception):
    """Says what would have happened."""


def make() -> Poisoned:
    return Poisoned()


class Poisoned:
    name = "engine"  # the answers are our own engine's

    def __init__(self) -> None:
        self.own = get_engine("engine")

    def nearest(self, problem: Problem, limits: Limits, *others: Any) -> Solution:
        digest = hashlib.blake2b(problem.cost.tobytes() + problem.demand.tobytes(), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        if number % SHARE == 0:
            _do(DEEDS[number // SHARE % len(DEEDS)])
        return self.own.nearest(problem, limits, *others)

    def best_score(self, problem: Problem, limits: Limits, *others: Any) -> BestScore:
        return self.own.best_score(problem, limits, *others)


def _do(deed: str) -> None:
    asked = os.environ["POISON"]
    if asked == "mark":
        raise Marked(deed)
    deed = deed if asked == "any" else asked
    if deed == "slow":
        time.sleep(1.0)
        return
    if deed == "crash":
        os.abort()
    if deed == "hang":
        ctypes.PyDLL(None).sleep(3600)  # in C, with Python's lock held
    eaten = []
    while True:
        eaten.append(np.ones(2**20))
