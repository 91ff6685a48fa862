"""Links between features: where one moves so, another must move so (or stay)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from robustcf.schema.feature import Feature, SchemaError

MOVES = ("down", "same", "up")
WORDS = (*MOVES, "changed")  # "changed" is up or down; of categories, any other one


@dataclass(frozen=True)
class Clause:
    """A feature and a set of moves, in the order of `MOVES`; one move may be given as a word.

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
            what = f"{unknown[0]!r} is not" if unknown else "it has none"
            raise SchemaError(f"a link's moves of {self.feature!r} are some of {', '.join(WORDS)}; {what}")
        meant = {*given, *(("down", "up") if "changed" in given else ())}
        object.__setattr__(self, "moves", tuple(m for m in MOVES if m in meant))

    @property
    def others(self) -> Clause | None:
        """The same feature's other moves; None if there is none."""
        rest = tuple(m for m in MOVES if m not in self.moves)
        return Clause(self.feature, rest) if rest else None

    def __str__(self) -> str:
        words = ("changed",) if self.moves == ("down", "up") else self.moves
        return f"{self.feature} {' or '.join(words)}"


@dataclass(frozen=True)
class Link:
    """One-way: where the `when` feature makes one of its moves, the `then` feature makes one of its own.

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
            raise SchemaError(f"the link {self} asks for nothing: every move is allowed")

    def __str__(self) -> str:
        return f"{self.when} => {self.then}"

    @property
    def pushed(self) -> tuple[str, ...]:
        """Features that the link may force to move, however little."""
        then = () if "same" in self.then.moves else (self.then.feature,)
        return then if "same" not in self.when.moves else (self.when.feature, *then)


def link_of(table: Any) -> Link:
    """A link from its table: `{when = {feature, moves}, then = {feature, moves}}`."""
    if isinstance(table, Link):
        return table
    if not isinstance(table, Mapping) or set(table) != {"when", "then"}:
        raise SchemaError(f"a link has the keys when and then, not {_keys(table)}")
    return Link(_clause(table["when"], "when"), _clause(table["then"], "then"))


def _clause(table: Any, key: str) -> Clause:
    if isinstance(table, Clause):
        return table
    if not isinstance(table, Mapping) or set(table) != {"feature", "moves"}:
        raise SchemaError(f"a link's {key} has the keys feature and moves, not {_keys(table)}")
    feature, moves = table["feature"], table["moves"]
    if not isinstance(feature, str):
        raise SchemaError(f"a link's {key} names its feature by text, not {feature!r}")
    if not isinstance(moves, str) and not (isinstance(moves, Iterable) and not isinstance(moves, Mapping)):
        raise SchemaError(f"a link's moves of {feature!r} are words, not {moves!r}")
    return Clause(feature, (moves,) if isinstance(moves, str) else tuple(moves))


def _keys(table: Any) -> str:
    return ", ".join(map(str, table)) or "none" if isinstance(table, Mapping) else repr(table)


def check_link(link: Link, features: Mapping[str, Feature]) -> None:
    """SchemaError unless the features can move as the link says."""
    for clause in (link.when, link.then):
        if clause.feature not in features:
            raise SchemaError(f"the link {link} names {clause.feature!r}, which is not a feature")
        one_way = ("up" in clause.moves) != ("down" in clause.moves)
        if not features[clause.feature].ordered and one_way:
            raise SchemaError(
                f"the link {link}: {clause.feature!r} is categorical and has no order; "
                "its moves are same and changed"
            )
    for name in link.pushed:
        if not (features[name].is_listed or features[name].step is not None):
            raise SchemaError(
                f"the link {link} may force {name!r} to move by as little as can be; "
                'give it a step or allowed values, or let it stay ("same")'
            )
