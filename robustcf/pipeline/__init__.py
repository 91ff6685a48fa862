"""Fitted scikit-learn pipelines, read step by step: encoded rows equal the pipeline's bit for bit."""

from __future__ import annotations

from robustcf.pipeline.read import ReadModel, read_model

__all__ = ["ReadModel", "read_model"]
