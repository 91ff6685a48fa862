"""Run a peer package in its own interpreter, with JSON lines as input and output.

This file imports nothing of this repository, because it may run under another Python:
`python peer_worker.py treecf|treecf-cold|oceanpy`. `{"do": "setup", ...}` prepares one forest and
`{"do": "solve", ...}` answers one row. Both measure their own time, without the protocol.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from functools import partial
from itertools import pairwise

import joblib
import numpy as np

BARRED = 1000.0  # the cost of a forbidden move


class Treecf:
    """treecf's exact branch and bound, with or without its genetic warm start."""

    def __init__(self, model, features, warm=True):
        from treecf import Explainer, Freeze, Grid, Monotone, OneHot

        names = [f"f{j}" for j in range(model.n_features_in_)]
        weights, constraints, policy = {}, [], {}
        for feature in features:
            mine = names[feature["column"] : feature["column"] + feature["n_columns"]]
            weights |= dict.fromkeys(mine, feature["weight"])
            if feature["action"] == "fixed":
                constraints += [Freeze(name) for name in mine]
                continue
            if feature["action"] != "free":
                constraints.append(Monotone(mine[0], feature["action"]))
            if feature["kind"] == "categorical":
                constraints.append(OneHot(tuple(mine)))
            elif feature["values"]:  # listed values: use the grid that contains all of them
                step = float(np.diff(feature["values"]).min())
                policy[mine[0]] = Grid(step=step, anchor=float(feature["values"][0]))
            elif feature["step"]:
                policy[mine[0]] = Grid(step=feature["step"], anchor=feature["anchor"])
        self.flips, self.warm = 0.5 + 1e-9, warm
        self.explainer = Explainer(
            model,
            constraints=constraints,
            weights=weights,
            normalizers=np.ones(len(names)),
            value_policy=policy,
        )
        if list(self.explainer.ir.feature_names) != names:
            raise RuntimeError(f"treecf calls the columns {self.explainer.ir.feature_names[:3]}...")

    def solve(self, x, target, limit):
        from treecf import Infeasible, Target

        if target == 1:
            wanted = Target.raw(op=">=", value=self.flips)
        else:
            wanted = Target.raw(op="<=", value=1 - self.flips)
        found = self.explainer.explain(
            x, wanted, backend="exact", time_budget_s=limit, node_budget=2**62, seed=0, warm_start=self.warm
        )
        if isinstance(found, Infeasible):
            return ("no_recourse" if found.proof == "certified" else "timeout"), None
        return ("optimal" if found.proof == "optimal" else "feasible"), found.x_cf


class Ocean:
    """oceanpy's constraint program with the paper's costs and listed values."""

    def __init__(self, model, features):
        import pandas as pd
        from ocean.abc import Mapper
        from ocean.cp import Explainer
        from ocean.feature import Feature

        mapping, columns, self.of = {}, [], {}
        for feature in features:
            name, codes = feature["name"], [f"{i:04d}" for i in range(feature["n_columns"])]
            self.of[name] = feature
            if feature["kind"] == "categorical":
                mapping[name] = Feature(Feature.Type.ONE_HOT_ENCODED, codes=codes)
                columns += [(name, code) for code in codes]
                continue
            columns.append((name, ""))
            if feature["kind"] == "binary":
                mapping[name] = Feature(Feature.Type.BINARY)
            else:
                mapping[name] = Feature(Feature.Type.CONTINUOUS, levels=(-1.0, 2.0))
        mapper = Mapper(mapping, columns=pd.MultiIndex.from_tuples(columns))
        of = self.of

        class Weighted(Explainer):
            def Lp(self, x, v, code=None, *, norm=1):
                self.feature = of[next(n for n, held in self.mapper.items() if held is v)]
                if v.is_numeric:
                    return super().Lp(x, v, code, norm=norm)
                wrong_way = ("fixed", "increase" if x else "decrease")
                barred = self.feature["action"] in wrong_way
                changed = v.xget(code) if x == 0.0 else 1 - v.xget(code)
                return changed * round((BARRED if barred else self.feature["weight"]) * self._obj_scale)

            def get_intervals_cost(self, levels, x, *, norm=1):
                return [int(self._cost(low, high, x) * self._obj_scale) for low, high in pairwise(levels)]

            def _cost(self, low, high, x):
                if low < x <= high:
                    return 0.0
                if self.feature["action"] in ("fixed", "decrease" if low >= x else "increase"):
                    return BARRED
                values = self.feature["values"]
                if self.feature["step"]:
                    step, anchor = self.feature["step"], self.feature["anchor"]
                    first = math.floor(((low if low >= x else high) - anchor) / step) + (low >= x)
                    values = [anchor + first * step]
                elif not values:
                    return self.feature["weight"] * (low - x if low >= x else x - high)
                inside = [abs(v - x) for v in values if low < v <= high]
                return self.feature["weight"] * min(inside) if inside else BARRED

        self.explainer = Weighted(model, mapper=mapper)

    def solve(self, x, target, limit):
        found = self.explainer.explain(x, y=target, norm=1, max_time=limit, num_workers=1, random_seed=0)
        status = self.explainer.get_solving_status()
        if found is None:
            return ("no_recourse" if status == "INFEASIBLE" else "timeout"), None
        return ("optimal" if status == "OPTIMAL" else "feasible"), found.x


PEERS = {"treecf": Treecf, "treecf-cold": partial(Treecf, warm=False), "oceanpy": Ocean}


def serve(name, requests, answers):
    peer = None
    for line in requests:
        request = json.loads(line)
        begin, cpu = time.perf_counter(), time.process_time()
        try:
            if request["do"] == "setup":
                model = joblib.load(request["model"])
                begin, cpu = time.perf_counter(), time.process_time()
                peer = PEERS[name](model, request["features"])
                answer = {"status": "ready"}
            else:
                x = np.array(request["x"], dtype=np.float64)
                begin, cpu = time.perf_counter(), time.process_time()
                status, point = peer.solve(x, request["target"], request["limit"])
                answer = {"status": status, "point": None if point is None else list(map(float, point))}
        except Exception as error:  # the parent records it and continues
            answer = {"status": "error", "reason": f"{type(error).__name__}: {error}"}
        answer |= {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a peer's output must not mix with the answers
    serve(sys.argv[1], sys.stdin, channel)
