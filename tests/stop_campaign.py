"""Random small problems of all kinds, stopped early, against brute force: `python -m tests.stop_campaign`.

Blocks of problems are checked one after another; each is a line of `stops.jsonl`, so that the same command
goes on where it was stopped. A disagreement is a claim that brute force refutes. `test_early_stops.py` runs
a share of it with every `make test`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from robustcf_benchmarks.store import code_fingerprint, read

import robustcf as rc
from robustcf.schema.encode import encode
from robustcf.solve import Engine, Limits, get_engine
from robustcf.solve.contract import BestScore, Solution, cheapest
from robustcf.solve.engine import OwnEngine
from robustcf.solve.handover import HandOver
from robustcf.solve.highs import Highs
from robustcf.solve.incumbent import find_incumbent
from robustcf.solve.milp import MilpEngine
from tests.helpers.by_hand import candidates_of, keeping_rules, solve_by_hand
from tests.helpers.early_stops import (
    check_claims,
    clock_that_strikes,
    impatient,
    with_conditions,
    with_nodes,
    without_first_points,
)
from tests.helpers.plausible_by_hand import (
    Expected,
    Question,
    isolation_by_hand,
    lof_question,
    product,
    training_of,
    wanted,
)
from tests.helpers.problems import IMPATIENT, random_problem
from tests.helpers.worlds import Score, World, make_worlds, scores_by_model

SETTINGS: tuple[dict[str, float], ...] = (
    IMPATIENT, {}, IMPATIENT | {"SHRUNK": 0.99}, {"PROPAGATE": False, "QUICK": 2},
    IMPATIENT | {"PROPAGATE": True, "PROPAGATED": 1},
)  # fmt: skip
STOPS = 3  # early stops of each question
NEVER = 10**9


@dataclass
class Block:
    """What was checked: problems, answers by status, and every claim that brute force refutes."""

    problems: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)


def stops(rng: np.random.Generator, most: int) -> tuple[int, float]:
    """A look at the clock at which time ends, and a number of nodes; one of them without limit."""
    if rng.random() < 0.5:
        return int(rng.integers(0, most)), math.inf
    return NEVER, float(rng.integers(1, 9))


def bare_problems(seed: int, count: int) -> Block:
    """Engines on problems of one to three conditions, costs of any size."""
    rng, block, oracle = np.random.default_rng(seed), Block(), get_engine("oracle")
    highs = MilpEngine(Highs())
    engines: list[Engine] = [OwnEngine()] * 8 + [HandOver(OwnEngine(), highs), highs]
    for k in range(count):
        problem = random_problem(rng)
        if problem.n_trees and k % 2:
            problem = with_conditions(rng, problem, int(rng.integers(0, 3)))
        if rng.random() < 0.25:
            problem = problem._replace(cost=problem.cost * float(rng.choice([1e-10, 1e-6, 1e8])))
        engine = engines[int(rng.integers(len(engines)))]
        look, nodes = stops(rng, 25)
        start = find_incumbent(problem, cheapest(problem)) if rng.random() < 0.3 else None
        with clock_that_strikes(look):
            answer = engine.nearest(problem, Limits(nodes=nodes), start)
        with clock_that_strikes(look):
            best = engine.best_score(problem, Limits(nodes=nodes))
        truth, highest = oracle.nearest(problem, Limits()), oracle.best_score(problem, Limits())
        wrong = _about_bare(answer, best, truth, highest)
        block.problems += 1
        block.statuses[answer.status] += 1
        if wrong:
            block.disagreements.append(
                f"bare, seed {seed}, number {k}, look {look}, nodes {nodes}, {engine.name}: {wrong}"
            )
    return block


def _about_bare(answer: Solution, best: BestScore, truth: Solution, highest: BestScore) -> str:
    """What brute force refutes of an engine's solution and best score."""
    slack = 1e-9 * abs(truth.objective) if math.isfinite(truth.objective) else 0.0
    if answer.status == "infeasible" and truth.status != "infeasible":
        return f"infeasible, but {truth.objective!r} is possible"
    if answer.lower_bound > truth.objective + slack:
        return f"bound {answer.lower_bound!r} above the optimum {truth.objective!r}"
    if answer.objective < truth.objective - slack:
        return f"objective {answer.objective!r} below the optimum {truth.objective!r}"
    if answer.status == "optimal" and answer.objective > truth.objective + slack:
        return f"optimal {answer.objective!r} above the optimum {truth.objective!r}"
    if best.choice is not None and not best.votes <= highest.votes <= best.at_most:
        return f"best votes {best.votes} to {best.at_most}, but {highest.votes} are the most"
    return ""


def thresholds_by_hand(world: World, seed: int) -> Question | None:
    """The question of thresholds alone; some are exactly the score of an allowed point."""
    world = with_reachable_thresholds(np.random.default_rng([seed, 2]), world)
    truth = solve_by_hand(world)
    if truth.own == truth.target:
        return None
    expected = [
        Expected(tau, "no_recourse", best_score=truth.best_score)
        if least is None
        else Expected(tau, "optimal", (least, least))
        for tau, least in truth.distances.items()
    ]
    return Question(world, [Score(tau) for tau in truth.distances], (np.zeros((0, 0)), np.zeros(0)), expected)


def with_reachable_thresholds(rng: np.random.Generator, world: World) -> World:
    """The world with some thresholds replaced by scores that allowed points have; often the highest."""
    if rng.random() < 0.5:
        return world
    points, _ = product(candidates_of(world))
    points = points[keeping_rules(world, points)]
    if not len(points):
        return world
    scores = scores_by_model(world.forest.judge, encode(world.schema, points), world.voting)
    scores = scores[:, world.forest.classes.index(wanted(world))]
    drawn = float(scores.max()) if rng.random() < 0.5 else float(rng.choice(scores))
    return replace(world, taus=tuple(dict.fromkeys([drawn, *world.taus[1:]])))


def robx_question(world: World, seed: int) -> Question | None:
    """The question of RobX, which claims nothing but `no_recourse`, where no point flips the decision."""
    truth = solve_by_hand(replace(world, taus=(0.0,)))
    if truth.own == truth.target:
        return None
    X, y = training_of(world, seed)
    label = scores_by_model(world.forest.judge, X, world.voting).argmax(axis=1)
    if len(set(label.tolist())) < len(world.forest.classes):  # RobX wants rows of every class
        return None
    status = "no_recourse" if truth.distances[0.0] is None else "heuristic"
    least = truth.distances[0.0] or 0.0
    expected = [Expected(0.5, status, (least, math.inf), best_score=truth.best_score)]
    return Question(world, [rc.RobX(k=20)], (X, y), expected)


FAMILIES: dict[str, Callable[[World, int], Question | None]] = {
    "thresholds": thresholds_by_hand,
    "isolation": isolation_by_hand,
    "1-LOF": lof_question,
    "robx": robx_question,
}


def stopped_questions(by_hand: Callable[[World, int], Question | None], seeds: range) -> Block:
    """Every world's question, with time or nodes ending at random places."""
    block = Block()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for i, world in enumerate(make_worlds(seed)):
            question = by_hand(world, seed)
            if question is None:
                continue
            world = question.world
            explainer = rc.Explainer(
                world.forest,
                world.schema,
                question.methods,
                target=world.target,
                voting=world.voting,  # type: ignore[arg-type]
                training=question.training if len(question.training[0]) else None,
            )
            block.problems += len(question.expected)
            for _ in range(STOPS):
                look, nodes = stops(rng, 8)
                with_nodes(explainer, nodes)
                with without_first_points(rng.random() < 0.7), clock_that_strikes(look):
                    answers = explainer.explain_grid(world.row)
                for truth, answer in zip(question.expected, answers, strict=True):
                    block.statuses[answer.status] += 1
                    try:
                        check_claims(answer, truth)
                    except AssertionError as error:
                        where = f"make_worlds({seed})[{i}], look {look}, nodes {nodes}"
                        block.disagreements.append(f"{where}: {answer} against {truth}: {error}")
    return block


# per block: how many bare problems, or how many seeds of worlds
SHARES = {"bare": 3000, "thresholds": 200, "isolation": 30, "1-LOF": 40, "robx": 15}
FIRST = 6 * 10**6  # seeds that no other test uses


def run_block(number: int) -> dict[str, Block]:
    """One block of every kind, under one of the engine's settings."""
    found = {}
    with impatient(SETTINGS[number % len(SETTINGS)]):
        for kind, count in SHARES.items():
            first = FIRST + number * count
            if kind == "bare":
                found[kind] = bare_problems(first, count)
            else:
                found[kind] = stopped_questions(FAMILIES[kind], range(first, first + count))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Blocks until enough problems were checked; 1 if brute force refuted anything."""
    parser = argparse.ArgumentParser(prog="python -m tests.stop_campaign", description=__doc__)
    parser.add_argument("--problems", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("stops"), help="folder of the counts")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path, code, begin = options.out / "stops.jsonl", code_fingerprint(), time.perf_counter()
    lines = read(path)
    if any(line["code"] != code for line in lines):
        print(f"{path} holds counts of other code; choose another --out", file=sys.stderr)
        return 2
    while (done := sum(line["problems"] for line in lines)) < options.problems:
        number = 1 + max((line["block"] for line in lines), default=-1)
        fresh = [
            {"block": number, "kind": kind, "code": code, **vars(found)}
            for kind, found in run_block(number).items()
        ]
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in fresh))
        lines += fresh
        spent = time.perf_counter() - begin
        wrong = sum(len(line["disagreements"]) for line in lines)
        now = done + sum(line["problems"] for line in fresh)
        print(f"block {number}: {now} problems, {wrong} disagreements, {spent:.0f} s", flush=True)
    for kind in SHARES:
        mine = [line for line in lines if line["kind"] == kind]
        statuses = sum((Counter(line["statuses"]) for line in mine), Counter[str]())
        print(f"{kind}: {sum(line['problems'] for line in mine)} problems; answers {dict(statuses)}")
    wrong_lines = [text for line in lines for text in line["disagreements"]]
    print("\n".join([*wrong_lines, f"{done} problems, {len(wrong_lines)} disagreements"]))
    return 1 if wrong_lines else 0


if __name__ == "__main__":
    sys.exit(main())
