"""The schema of the customer table: kinds, values, moves, costs and encodings."""

from __future__ import annotations

from robustcf.schema.feature import Action, Feature, Kind, Scaling, SchemaError, Value
from robustcf.schema.links import Link
from robustcf.schema.schema import Schema

__all__ = ["Action", "Feature", "Kind", "Link", "Scaling", "Schema", "SchemaError", "Value"]
