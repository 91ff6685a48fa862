"""What is demanded of an explanation: the methods as values, and the families that answer them."""

from __future__ import annotations

from robustcf.methods.values import (
    ConvexApproximation,
    DirectSAA,
    IsolationForest,
    LocalOutlierFactor,
    Method,
    Naive,
    RobustSAA,
    RobX,
    needs_training,
)

__all__ = [
    "ConvexApproximation",
    "DirectSAA",
    "IsolationForest",
    "LocalOutlierFactor",
    "Method",
    "Naive",
    "RobX",
    "RobustSAA",
    "needs_training",
]
