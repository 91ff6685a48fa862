"""Reason codes: the user's table that maps a changed feature and its direction to a code."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robustcf.support.documents import DocumentError, parse_toml
from robustcf.verify.moves import Changes

from ..inputs.errors import BadInput
from ..inputs.secrets import without_secrets
from ..inputs.uri import open_filesystem

KEYS = ("feature", "direction", "code", "text")
DIRECTIONS = {"up": 1, "increase": 1, "down": -1, "decrease": -1, "": 0, "any": 0, "changed": 0}


@dataclass(frozen=True)
class Reasons:
    """Codes by (feature, direction); direction 0 means both. The default is the feature's name."""

    codes: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)

    def of(self, feature: str, up: int) -> tuple[str, str]:
        """Return code and text of a change; the default is the feature's name."""
        return self.codes.get((feature, up)) or self.codes.get((feature, 0)) or (feature, feature)

    def ranked(
        self, changes: Changes, cost: np.ndarray, up: np.ndarray, rows: int, most: int
    ) -> list[list[tuple[str, str]]]:
        """Rank each row's reasons by cost, at most `most`; changes with equal codes are added up."""
        shares: list[dict[tuple[str, str], float]] = [{} for _ in range(rows)]
        for row, feature, price, sign in zip(
            changes.row.tolist(), changes.feature, cost.tolist(), up.tolist(), strict=True
        ):
            reason = self.of(feature, int(sign))
            shares[row][reason] = shares[row].get(reason, 0.0) + price
        return [sorted(own, key=lambda r: -own[r])[:most] for own in shares]  # stable: ties keep their order


def read_reasons(address: str, features: Sequence[str]) -> Reasons:
    """Read a CSV file (feature, direction, code, text) or a TOML file of [[reason]] tables."""
    shown = without_secrets(address)
    filesystem, path = open_filesystem(address)
    try:
        with filesystem.open_input_stream(path) as stream:
            text = stream.read().decode("utf-8-sig")
        lines = _toml(text, shown) if path.lower().endswith(".toml") else _csv(text, shown)
    except OSError as error:
        raise BadInput(f"{shown}: cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, DocumentError, csv.Error) as error:
        raise BadInput(f"{shown}: not a table of reasons: {error}") from None
    codes: dict[tuple[str, int], tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        feature, direction, code, words = _checked(line, f"{shown}: reason {number}", features)
        if (feature, direction) in codes:
            raise BadInput(f"{shown}: reason {number}: {feature!r} already has a code for this direction")
        codes[feature, direction] = code, words
    if not codes:
        raise BadInput(f"{shown}: contains no reason")
    return Reasons(codes)


def _toml(text: str, shown: str) -> list[Any]:
    document = parse_toml(text)
    tables = document.pop("reason", None)
    if document or not isinstance(tables, list):
        raise BadInput(f"{shown}: expected [[reason]] tables and nothing else")
    return tables


def _csv(text: str, shown: str) -> list[Any]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    for name in ("feature", "code"):
        if name not in (reader.fieldnames or ()):
            raise BadInput(f"{shown}: column {name!r} is missing")
    return list(reader)


def _checked(line: Any, where: str, features: Sequence[str]) -> tuple[str, int, str, str]:
    if not isinstance(line, dict) or not set(line) <= set(KEYS):
        raise BadInput(f"{where}: unknown key; the allowed keys are {', '.join(KEYS)}")
    feature, direction, code, text = (line.get(key) or "" for key in KEYS)
    if not all(isinstance(word, str) for word in (feature, direction, code, text)):
        raise BadInput(f"{where}: feature, direction, code and text must be strings")
    if feature not in features:
        raise BadInput(f"{where}: the run has no feature {feature!r}")
    if direction not in DIRECTIONS:
        raise BadInput(f"{where}: direction is {direction!r}; choose up, down or any")
    if not code:
        raise BadInput(f"{where}: {feature!r} has no code")
    return feature, DIRECTIONS[direction], code, text or code
