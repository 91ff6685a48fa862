"""robustcf: nearest counterfactual explanations of forests that survive retraining, proved."""

from robustcf import datasets
from robustcf.explain import Change, Counterfactual, Explainer
from robustcf.forest import Forest, ForestError
from robustcf.forest_io import load_forest, save_forest
from robustcf.methods import DirectSAA, Method, Naive, RobustSAA
from robustcf.schema import Feature, Schema, SchemaError
from robustcf.solve import SolverError

__all__ = [
    "Change",
    "Counterfactual",
    "DirectSAA",
    "Explainer",
    "Feature",
    "Forest",
    "ForestError",
    "Method",
    "Naive",
    "RobustSAA",
    "Schema",
    "SchemaError",
    "SolverError",
    "datasets",
    "load_forest",
    "save_forest",
]
