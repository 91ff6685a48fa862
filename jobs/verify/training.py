"""Isolation forests and training rows, to check methods that use training rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from robustcf.methods.answer_key import training_digest
from robustcf.schema.encode import read_rows
from robustcf.schema.schema import Schema
from robustcf.support.tolerances import EXACT_TIE
from robustcf.verify import Trees
from robustcf.verify.isolation import Isolation, fit_isolation, read_isolation
from robustcf.verify.outlier import Neighbours
from robustcf.verify.plausible import ISOLATION, OUTLIER, Plausible
from robustcf.verify.reading import encode_rows, numbers_of

from ..inputs.config import Training
from ..inputs.errors import BadInput
from ..inputs.secrets import is_uri
from ..inputs.tables import read_table
from .records import Records, Unit
from .retrain import AllRows
from .tables import first_line

Rows = tuple[np.ndarray, np.ndarray]  # encoded rows, labels as text


def read_training(training: Training | None, schema: Schema, trees: Trees, trusted: bool) -> Rows | str:
    """Return the encoded training rows and labels, or why they are not available."""
    if training is None:
        return "the run has no training table"
    if is_uri(training.data) and not trusted:
        return "the training table is remote; give it in your own config with --config"
    try:
        table = read_table(training.data, [training.label, *schema.names])
    except BadInput as error:
        if trusted:
            raise
        return error.format_message()
    read = read_rows(schema, table.select(list(schema.names)).to_pandas(), missing=trees.accepts_missing)
    if any(reason is not None for reason in read.reasons):
        return "the training table has rows that the schema does not allow"
    return encode_rows(schema.features, read.numbers), _labels(table[training.label].to_pandas(), trees)


def check_training_hash(
    records: Records, trees: Trees, X: np.ndarray, labels: np.ndarray, part: str = "first"
) -> None:
    """Compare the training rows with the digest in the manifest."""
    digest = training_digest(X, own_labels(trees, labels))
    stored = records.manifest.get("training_hash")
    stored = stored.get(part) if isinstance(stored, dict) else stored
    name = "training_hash" if part == "first" else f"training_hash.{part}"
    records.findings.expect("training", f"manifest.json: {name}", stored, digest)


def own_labels(trees: Trees, texts: np.ndarray) -> np.ndarray:
    """Return labels given as text as the forest's own labels."""
    own = {str(label): label for label in trees.classes}
    return np.array([own.get(text, text) for text in texts])


def read_all_rows(
    records: Records, training: Training | None, schema: Schema, trees: Trees, trusted: bool
) -> AllRows:
    """Return the training rows and those collected later; check their digests.

    Raises
    ------
    BadInput
        If they are not available.
    """
    tables = [training]
    if training is not None and training.later is not None:
        tables.append(replace(training, data=training.later, later=None))
    parts = []
    for table in tables:
        rows = read_training(table, schema, trees, trusted)
        if isinstance(rows, str):
            raise BadInput(f"--retrain needs the training rows: {rows}")
        parts.append(rows)
    X, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    check_training_hash(records, trees, *parts[0])
    check_training_hash(records, trees, X, labels, "all")
    return AllRows(X, own_labels(trees, labels), np.arange(len(parts[0][1])))


def _labels(column: pd.Series, trees: Trees) -> np.ndarray:
    """Return the forest's labels as text, compared by value or by text."""
    known: dict[Any, str] = {str(c): str(c) for c in trees.classes}
    known |= {c: str(c) for c in trees.classes}
    return np.array([known.get(v, known.get(str(v), "")) for v in column], dtype=object)


class Plausibility:
    """Provides isolation forests and training rows per unit.

    `notes` lists what is missing.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self.notes: dict[str, None] = {}
        names = {d.name for d in records.demands}
        self.isolation, self.outlier = ISOLATION in names, OUTLIER in names
        self._known: Plausible | None = None

    @property
    def needed(self) -> bool:
        return self.isolation or self.outlier

    def of(self, unit: Unit, trees: Trees, schema: Schema, training: Rows | str | None) -> Plausible | None:
        """Return the data to check a unit's rows.

        `training` is a text if it is not available.
        """
        if not self.needed:
            return None
        if self.records.kind == "audit" and self._known is not None:
            return self._known
        found = Plausible(
            self._isolation(unit, trees, training) if self.isolation else {},
            self._neighbours(trees, schema, training) if self.outlier else {},
        )
        self._known = found
        return found

    def _targets(self, trees: Trees) -> list[int]:
        target = self.records.target(trees)
        return list(range(len(trees.classes))) if target is None else [trees.position(target)]

    def _isolation(
        self, unit: Unit, trees: Trees, training: Rows | str | None
    ) -> dict[tuple[int, int], Isolation]:
        records, found = self.records, {}
        noted = self._noted(unit)
        prefix = unit.shard.removesuffix(".parquet") + "-" if records.kind == "sweep" else ""
        for d, demand in enumerate(records.demands):
            if demand.name != ISOLATION:
                continue
            contamination = "auto" if demand.parameter is None else demand.parameter
            for target in self._targets(trees):
                name = (
                    f"{prefix}contamination-{contamination}-trees-{demand.isolation_trees}-class-{target}.npz"
                )
                own = self._read(f"detectors/{name}", noted, trees)
                if own is not None:
                    found[d, target] = own
                    self._fit_again(own, name, contamination, demand.isolation_trees, target, trees, training)
        return found

    def _noted(self, unit: Unit) -> Mapping[str, Any] | None:
        manifest, shards = self.records.manifest, self.records.shards
        if self.records.kind == "audit":
            noted = manifest.get("detectors")
        else:
            noted = (shards.get(f"counterfactuals/{unit.shard}") or {}).get("detectors")
        return noted if isinstance(noted, Mapping) else None

    def _read(self, name: str, noted: Mapping[str, Any] | None, trees: Trees) -> Isolation | None:
        findings = self.records.findings
        if noted is None:
            self.notes["the isolation forests' decisions: the run stores no isolation forests"] = None
            return None
        try:
            content = self.records.run.read(name)
            digest = hashlib.sha256(content).hexdigest()
            findings.expect("digest", f"{name}: sha256", noted.get(name), digest)
            return read_isolation(content, trees.n_features)
        except (OSError, ValueError) as error:
            findings.add("files", f"{name}: {first_line(error)}")
            return None

    def _fit_again(
        self,
        own: Isolation,
        name: str,
        contamination: float | str,
        n_trees: int,
        target: int,
        trees: Trees,
        training: Rows | str | None,
    ) -> None:
        """Check that the training rows give the stored isolation forest, if possible."""
        what = "that the isolation forests were fitted on the training rows"
        made = self.records.manifest.get("versions", {}).get("scikit-learn")
        if isinstance(training, str) or training is None:
            self.notes[f"{what}: {training or 'the rows were not requested'}"] = None
        elif made != version("scikit-learn"):
            here = version("scikit-learn")
            self.notes[f"{what}: the run used scikit-learn {made}, here it is {here}"] = None
        else:
            X, labels = training
            rows = X[labels == str(trees.classes[target])]
            if not len(rows) or not own.same_as(
                fit_isolation(rows, contamination, n_trees, self.records.seed)
            ):
                self.records.findings.add(
                    "plausibility", f"detectors/{name}: not the isolation forest of the training rows"
                )

    def _neighbours(self, trees: Trees, schema: Schema, training: Rows | str | None) -> dict[int, Neighbours]:
        if isinstance(training, str) or training is None:
            why = training or "the rows were not requested"
            self.notes[f"the 1-LOF penalties in objectives and bounds: {why}"] = None
            return {}
        X = training[0]
        whole = X[~np.isnan(X).any(axis=1)]
        found = {}
        for target in self._targets(trees):
            verdict = trees.judge(whole, np.full(len(whole), target), self.records.voting)
            tied = (
                np.abs(verdict.lead) < EXACT_TIE
                if self.records.voting == "soft"
                else np.zeros(len(whole), bool)
            )
            if tied.any():
                self.notes["the 1-LOF penalties: the forest's votes tie on some training rows"] = None
                continue
            rows = np.unique(whole[verdict.lead > 0], axis=0)
            numbers = numbers_of(schema.features, rows)
            if np.isnan(numbers).any():
                self.notes["the 1-LOF penalties: the training rows cannot be decoded"] = None
                continue
            found[target] = Neighbours(schema.features, numbers)
        return found
