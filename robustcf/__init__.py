"""robustcf: nearest counterfactual explanations of forests that survive retraining, proved."""

from robustcf import datasets, insight, validate
from robustcf.assess import assess_points
from robustcf.explain import Change, Counterfactual, Explainer
from robustcf.forest import Forest, ForestError
from robustcf.forest_io import load_forest, save_forest
from robustcf.guarantee import Guarantee
from robustcf.methods import (
    ConvexApproximation,
    DirectSAA,
    IsolationForest,
    LocalOutlierFactor,
    Method,
    Naive,
    RobustSAA,
    RobX,
)
from robustcf.robustness import Calibration, predicted_validity
from robustcf.schema import Feature, Schema, SchemaError
from robustcf.solve import SolverError

__all__ = [
    "Calibration",
    "Change",
    "ConvexApproximation",
    "Counterfactual",
    "DirectSAA",
    "Explainer",
    "Feature",
    "Forest",
    "ForestError",
    "Guarantee",
    "IsolationForest",
    "LocalOutlierFactor",
    "Method",
    "Naive",
    "RobX",
    "RobustSAA",
    "Schema",
    "SchemaError",
    "SolverError",
    "assess_points",
    "datasets",
    "insight",
    "load_forest",
    "predicted_validity",
    "save_forest",
    "validate",
]
