"""Read fitted scikit-learn pipelines and reproduce their encoding bit for bit."""

from __future__ import annotations

from robustcf.pipeline.read import ReadModel, read_model

__all__ = ["ReadModel", "read_model"]
