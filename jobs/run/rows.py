"""Answers as rows of the `counterfactuals` table."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from robustcf import Certificate, Counterfactual, Forest, Schema
from robustcf.forest.forest import Label
from robustcf.schema.schema import Feature

from .columns import CERTIFICATE

Key = tuple[str, float | None, float | None, float | None]


def method_key(method: Any) -> Key:
    """Return the values that distinguish the methods of a run."""
    return method.name, method.alpha, method.beta, method.parameter


def label_of(forest: Forest, text: str) -> Label:
    """Return the forest's label whose text is `text`."""
    for label in forest.classes:
        if str(label) == text:
            return label
    raise ValueError(f"the forest has no class {text!r}; its classes are {list(forest.classes)}")


def as_row(
    cf: Counterfactual,
    schema: Schema,
    *,
    dataset: str,
    simulation: int,
    instance_id: str,
    cohort: Mapping[str, str | None],
    voting: str,
    n_trees: int,
) -> dict[str, Any]:
    """Return one answer as a row of the fixed columns; NaN becomes null."""
    name, alpha, beta, parameter = method_key(cf.method)
    has_point = cf.encoded is not None
    return {
        "dataset": dataset,
        "simulation": simulation,
        "instance_id": instance_id,
        "cohort": list(cohort.items()),
        "method": name,
        "alpha": alpha,
        "beta": beta,
        "parameter": parameter,
        "voting": cf.method.voting or voting,
        "n_trees": n_trees,
        "target": None if cf.target is None else str(cf.target),
        "cutoff": _number(cf.cutoff),
        "threshold": _number(cf.threshold),
        "status": cf.status,
        "reason": cf.reason,
        "objective": _number(cf.objective),
        "distance": _number(cf.distance),
        "lower_bound": _number(cf.lower_bound),
        "gap": _number(cf.gap),
        "score_before": _number(cf.score_before),
        "score_after": _number(cf.score),
        "best_score": _number(cf.best_score),
        "best_score_gap": _number(cf.best_score_gap),
        "predicted_validity": _number(cf.predicted_validity),
        "n_changed": cf.n_changed if has_point else None,
        "changes": [
            {
                "feature": c.feature,
                "before": canonical(schema[c.feature], c.before),
                "after": canonical(schema[c.feature], c.after),
                "delta": c.delta,
            }
            for c in cf.changes
        ]
        if has_point
        else None,
        "point": cf.encoded.tolist() if cf.encoded is not None else None,
        "verified": cf.verified,
        "solver": cf.solver,
        "seconds": cf.seconds,
        "nodes": cf.nodes,
        **certificate_as_row(cf.certificate),
        "alternative": cf.alternative,
    }


def answer_starts(table: pa.Table) -> np.ndarray:
    """Return where each answer starts in a table; its alternatives follow it."""
    return np.flatnonzero(table["alternative"].to_numpy() == 0)


def certificate_as_row(certificate: Certificate | None) -> dict[str, Any]:
    """Return a certificate as values of its columns; α is the row's own."""
    if certificate is None:
        return {field.name: None for field in CERTIFICATE.values()} | {"certified": False}
    return {field.name: getattr(certificate, part) for part, field in CERTIFICATE.items()}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def canonical(feature: Feature, value: Any) -> str:
    """Return the canonical text of a value ("3", 3 and 3.0 give the same text)."""
    return str(feature.value(float(value))) if feature.is_number else str(value)


def distinct(keys: Sequence[bytes], usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each distinct row first occurs, and each row's number among them.

    `keys` are the rows' digests. Unusable rows are never merged, because each has its own reason.
    """
    names = np.array(keys, dtype=object)
    for i in np.flatnonzero(~usable):
        names[i] = int(i)
    codes, _ = pd.factorize(names)  # in order of appearance
    return np.unique(codes, return_index=True)[1], codes.astype(np.int64)


def row_keys(numbers: np.ndarray) -> list[bytes]:
    """Return a 128-bit digest of each row of numbers; equal rows have equal keys."""
    clean = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, no -0.0
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in clean]
