"""Compile the kernels into numba's cache: explain some customers with every kind of method."""

import sys

from sklearn.ensemble import RandomForestClassifier

import robustcf as rc

data = rc.datasets.synthetic_credit(400, seed=0)
rows, labels = data.encode(data.X), data.y
model = RandomForestClassifier(25, max_depth=4, random_state=0).fit(rows, labels)
forest = rc.Forest.from_sklearn(model)
for voting in ("soft", "hard"):
    methods = [rc.Naive(), rc.DirectSAA(alpha=0.05), rc.RobustSAA(alpha=0.2, beta=0.1)]
    if voting == "soft":
        methods += [rc.IsolationForest(), rc.LocalOutlierFactor(), rc.RobX()]
    explainer = rc.Explainer(
        forest, data.schema, methods, target=1, voting=voting, training=(rows, labels), time_limit=10.0
    )
    found = explainer.explain_many(data.X.iloc[:60])
    assert any(cf.status == "optimal" for cf in found), "no customer was explained"
sys.stdout.write(f"kernels compiled: {len(found)} answers\n")
