"""Links: if one feature makes a given move, another must move in a given way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from robustcf.schema.feature import Feature, SchemaError

MOVES = ("down", "same", "up")
WORDS = (*MOVES, "changed")  # "changed" means up or down; for categories, any other category


@dataclass(frozen=True)
class Clause:
    """A feature and a set of moves, in the order of `MOVES`.

    A single move may be given as a string.

    >>> Clause("age", ("changed",))
    Clause(feature='age', moves=('down', 'up'))
    """

    feature: str
    moves: tuple[str, ...]

    def __post_init__(self) -> None:
        moves: str | Iterable[str] = self.moves
        given = (moves,) if isinstance(moves, str) else tuple(moves)
        unknown = [m for m in given if m not in WORDS]
        if unknown or not given:
            what = f"unknown move {unknown[0]!r}" if unknown else "no moves"
            raise SchemaError(f"a link has {what} for {self.feature!r}; choose among {', '.join(WORDS)}")
        meant = {*given, *(("down", "up") if "changed" in given else ())}
        object.__setattr__(self, "moves", tuple(m for m in MOVES if m in meant))

    @property
    def others(self) -> Clause | None:
        """The feature's remaining moves; None if there are none."""
        rest = tuple(m for m in MOVES if m not in self.moves)
        return Clause(self.feature, rest) if rest else None

    def __str__(self) -> str:
        words = ("changed",) if self.moves == ("down", "up") else self.moves
        return f"{self.feature} {' or '.join(words)}"


@dataclass(frozen=True)
class Link:
    """A move of the `when` feature requires a move of the `then` feature.

    A link works in one direction only.

    Parameters
    ----------
    when, then : Clause
        A missing value stays missing and counts as "same".

    Examples
    --------
    >>> print(Link(Clause("education", "up"), Clause("age", ["up", "same"])))
    education up => age same or up
    """

    when: Clause
    then: Clause

    def __post_init__(self) -> None:
        if self.when.feature == self.then.feature:
            raise SchemaError(f"a link ties {self.when.feature!r} to itself; use the feature's own settings")
        if self.then.others is None:
            raise SchemaError(f"the link {self} has no effect: it allows every move")

    def __str__(self) -> str:
        return f"{self.when} => {self.then}"

    @property
    def pushed(self) -> tuple[str, ...]:
        """Features that the link may force to move."""
        then = () if "same" in self.then.moves else (self.then.feature,)
        return then if "same" not in self.when.moves else (self.when.feature, *then)


def link_of(table: Any) -> Link:
    """Build a link from `{when = {feature, moves}, then = {feature, moves}}`."""
    if isinstance(table, Link):
        return table
    if not isinstance(table, Mapping) or set(table) != {"when", "then"}:
        raise SchemaError(f"a link must have the keys when and then, not {_keys(table)}")
    return Link(_clause(table["when"], "when"), _clause(table["then"], "then"))


def _clause(table: Any, key: str) -> Clause:
    if isinstance(table, Clause):
        return table
    if not isinstance(table, Mapping) or set(table) != {"feature", "moves"}:
        raise SchemaError(f"a link's {key} must have the keys feature and moves, not {_keys(table)}")
    feature, moves = table["feature"], table["moves"]
    if not isinstance(feature, str):
        raise SchemaError(f"a link's {key} must name its feature as text, not {feature!r}")
    if not isinstance(moves, str) and not (isinstance(moves, Iterable) and not isinstance(moves, Mapping)):
        raise SchemaError(f"a link's moves of {feature!r} must be words, not {moves!r}")
    return Clause(feature, (moves,) if isinstance(moves, str) else tuple(moves))


def _keys(table: Any) -> str:
    return ", ".join(map(str, table)) or "none" if isinstance(table, Mapping) else repr(table)


def check_link(link: Link, features: Mapping[str, Feature]) -> None:
    """Raise a SchemaError unless the features can move as the link says."""
    for clause in (link.when, link.then):
        if clause.feature not in features:
            raise SchemaError(f"the link {link} names {clause.feature!r}, which is not a feature")
        one_way = ("up" in clause.moves) != ("down" in clause.moves)
        if not features[clause.feature].ordered and one_way:
            raise SchemaError(
                f"the link {link}: {clause.feature!r} is categorical and has no order; "
                "its moves can only be same and changed"
            )
    for name in link.pushed:
        if not (features[name].is_listed or features[name].step is not None):
            raise SchemaError(
                f"the link {link} may force {name!r} to move, and no smallest move exists; "
                'give it a step or allowed values, or let it stay ("same")'
            )
