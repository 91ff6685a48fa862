"""The methods as values, and the families that solve them (docs/methods.md)."""

from __future__ import annotations

from robustcf.methods.base import Method
from robustcf.methods.certified.method import Certified
from robustcf.methods.isolation.method import IsolationForest
from robustcf.methods.lof.method import LocalOutlierFactor
from robustcf.methods.robx.method import RobX
from robustcf.methods.thresholds import ConvexApproximation, DirectSAA, Margin, Naive, RobustSAA

__all__ = [
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
]
