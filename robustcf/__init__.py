"""robustcf: provably nearest counterfactual explanations that survive retraining."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustcf import datasets, insight, validate
    from robustcf.assess import assess_points
    from robustcf.certificate.certificate import Certificate
    from robustcf.certificate.design import Design
    from robustcf.certificate.fresh import FreshForests, train_fresh
    from robustcf.certificate.points import certify
    from robustcf.counterfactual import Change, Counterfactual
    from robustcf.explain import Explainer
    from robustcf.explain.blockers import Blockers, blockers_of
    from robustcf.explain.reasons import Reason, reasons_of
    from robustcf.explain.regions import Region, region_of
    from robustcf.forest.arrays import ForestError
    from robustcf.forest.files import load_forest, save_forest
    from robustcf.forest.forest import Forest
    from robustcf.guarantee import Guarantee
    from robustcf.judge import Judge
    from robustcf.methods.base import Method
    from robustcf.methods.certified.method import Certified
    from robustcf.methods.isolation.method import IsolationForest
    from robustcf.methods.lof.method import LocalOutlierFactor
    from robustcf.methods.robx.method import RobX
    from robustcf.methods.thresholds import ConvexApproximation, DirectSAA, Margin, Naive, RobustSAA
    from robustcf.pipeline.read import ReadModel, read_model
    from robustcf.robustness import Calibration, predicted_validity
    from robustcf.schema.schema import Feature, Schema, SchemaError
    from robustcf.solve import SolverError
    from robustcf.thresholds import Cutoff

    __version__: str

__all__ = [
    "Blockers",
    "Calibration",
    "Certificate",
    "Certified",
    "Change",
    "ConvexApproximation",
    "Counterfactual",
    "Cutoff",
    "Design",
    "DirectSAA",
    "Explainer",
    "Feature",
    "Forest",
    "ForestError",
    "FreshForests",
    "Guarantee",
    "IsolationForest",
    "Judge",
    "LocalOutlierFactor",
    "Margin",
    "Method",
    "Naive",
    "ReadModel",
    "Reason",
    "Region",
    "RobX",
    "RobustSAA",
    "Schema",
    "SchemaError",
    "SolverError",
    "assess_points",
    "blockers_of",
    "certify",
    "datasets",
    "insight",
    "load_forest",
    "predicted_validity",
    "read_model",
    "reasons_of",
    "region_of",
    "save_forest",
    "train_fresh",
    "validate",
]

# Names are imported on first use, so that `robustcf verify` does not load the solvers.
_HOMES = {
    "assess": ("assess_points",),
    "certificate.certificate": ("Certificate",),
    "certificate.design": ("Design",),
    "certificate.fresh": ("FreshForests", "train_fresh"),
    "certificate.points": ("certify",),
    "counterfactual": ("Change", "Counterfactual"),
    "explain": ("Explainer",),
    "explain.blockers": ("Blockers", "blockers_of"),
    "explain.reasons": ("Reason", "reasons_of"),
    "explain.regions": ("Region", "region_of"),
    "forest": ("Forest", "ForestError"),
    "forest.files": ("load_forest", "save_forest"),
    "guarantee": ("Guarantee",),
    "judge": ("Judge",),
    "methods": (
        "Certified",
        "ConvexApproximation",
        "DirectSAA",
        "IsolationForest",
        "LocalOutlierFactor",
        "Margin",
        "Method",
        "Naive",
        "RobX",
        "RobustSAA",
    ),
    "pipeline": ("ReadModel", "read_model"),
    "robustness": ("Calibration", "predicted_validity"),
    "schema": ("Feature", "Schema", "SchemaError"),
    "solve": ("SolverError",),
    "thresholds": ("Cutoff",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(import_module(f"robustcf.{_HOME[name]}"), name)
    elif name in __all__:
        found = import_module(f"robustcf.{name}")
    elif name == "__version__":
        found = import_module("importlib.metadata").version("robustcf")
    else:
        raise AttributeError(f"module 'robustcf' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
