"""Explain rows: find counterfactuals, prove them, and check them with the model."""

from robustcf.explain.explainer import Explainer

__all__ = ["Explainer"]
