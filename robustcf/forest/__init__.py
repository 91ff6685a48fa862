"""The explained model as flat arrays, and its reader and file format."""

from __future__ import annotations

from robustcf.forest.arrays import ForestError
from robustcf.forest.files import load_forest, save_forest
from robustcf.forest.forest import Forest, Label, Voting

__all__ = ["Forest", "ForestError", "Label", "Voting", "load_forest", "save_forest"]
