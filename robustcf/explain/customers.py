"""Customers as read: their numbers, targets, and the decisions on their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from robustcf.forest.forest import Label, Voting
from robustcf.judge import Judge, Verdict, disputed, verdicts_of
from robustcf.methods.base import Setting
from robustcf.methods.family import Customer
from robustcf.schema.encode import Rows, encode
from robustcf.schema.schema import Value


@dataclass(frozen=True)
class Customers:
    """Rows as read; lists and dictionaries with "usable" rows leave out unreadable ones."""

    numbers: np.ndarray
    reasons: list[str | None]
    usable: list[int]
    raws: list[dict[str, Value]]  # one per usable row, like `encoded`
    encoded: np.ndarray
    own: dict[int, Label]  # the forest's decision on each usable row
    targets: dict[int, Label]
    verdicts: dict[Voting, list[Verdict]]  # the judge's, one per usable row; empty without a judge

    @cached_property
    def position(self) -> dict[int, int]:
        """The position of each row among the usable rows."""
        return {i: k for k, i in enumerate(self.usable)}

    def customer(self, k: int) -> Customer:
        """Return the k-th usable row as the families take it."""
        i = self.usable[k]
        return Customer(self.numbers[i], self.encoded[k], self.targets[i])

    def dispute(self, k: int, voting: Voting) -> str | None:
        """Return why the k-th usable row is not explained: the judge disagrees."""
        if not self.verdicts:
            return None
        return disputed(self.verdicts[voting][k], self.own[self.usable[k]])


def read_customers(
    setting: Setting,
    frame: pd.DataFrame,
    read: Rows,
    target: Label | None,
    judge: Judge | None,
    votings: Iterable[Voting],
) -> Customers:
    """Return rows with the decisions of forest and judge, and the target of each.

    `read` are the numbers of the frame's rows. Without a `target`, it is the class that the forest does
    not predict.
    """
    forest = setting.forest
    usable = [i for i, reason in enumerate(read.reasons) if reason is None]
    encoded = encode(setting.schema, read.numbers[usable])
    predicted = forest.predict(encoded, setting.voting)
    own = {i: forest.classes[predicted[k]] for k, i in enumerate(usable)}
    targets = {i: _other(forest.classes, own[i]) if target is None else target for i in usable}
    records = frame.iloc[usable].to_dict("records") if usable else []
    raws: list[dict[str, Value]] = [{str(name): v for name, v in raw.items()} for raw in records]
    verdicts = {voting: verdicts_of(judge, raws, voting) for voting in votings} if judge is not None else {}
    return Customers(read.numbers, read.reasons, usable, raws, encoded, own, targets, verdicts)


def _other(classes: tuple[Label, ...], label: Label) -> Label:
    first, second = classes
    return second if label == first else first
