"""Turn the `[[method]]` tables of a config into methods."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from robustcf.certificate.bounds import forests_needed
from robustcf.certificate.certificate import together
from robustcf.methods.joint import settle_joint

from .errors import BadInput

MOST_METHODS = 1000  # per [[method]] table; one customer with 1000 methods takes hours


def methods_of(config: Any, where: str = "config") -> list[Any]:
    """Return the methods of the `[[method]]` tables.

    There is one per combination of listed parameters.
    """
    from robustcf.methods.registry import methods_by_name

    kinds = methods_by_name()
    if not config.method:
        raise BadInput(f"{where}: no [[method]] given")
    methods: list[Any] = []
    for table in config.method:
        methods += _methods(dict(table), kinds, where)
    seen = set()
    for method in methods:
        key = (method.name, method.alpha, method.beta, method.parameter)
        if key in seen:  # the result tables identify a method by these values
            raise BadInput(f"{where}: method {method} is listed twice")
        seen.add(key)
    return methods


def _methods(table: dict[str, Any], kinds: Mapping[str, Any], where: str) -> list[Any]:
    name = table.pop("name", None)
    if not isinstance(name, str) or name not in kinds:
        raise BadInput(f"{where}: method: name is {name!r}; choose among {', '.join(sorted(kinds))}")
    names = [f.name for f in dataclasses.fields(kinds[name])]
    for key in table:
        if key not in names:
            known = ", ".join(names) or "none"
            raise BadInput(f"{where}: method {name!r}: unknown key {key!r}; allowed keys: {known}")
    if "method" in table:
        if not isinstance(table["method"], Mapping):
            raise BadInput(f"{where}: method {name!r}: method must be a table, not {table['method']!r}")
        table["method"] = _methods(dict(table["method"]), kinds, where)
    lists = [_choices(kinds[name], key, value) for key, value in table.items()]
    if (count := math.prod(map(len, lists))) > MOST_METHODS:
        raise BadInput(
            f"{where}: method {name!r}: the lists make {count:,} methods; "
            f"at most {MOST_METHODS:,} are allowed"
        )
    made = []
    for values in itertools.product(*lists):
        try:
            made.append(kinds[name](**dict(zip(table, values, strict=True))))
        except (TypeError, ValueError) as error:
            raise BadInput(f"{where}: method {name!r}: {error}") from None
    return made


def _choices(kind: Any, key: str, value: Any) -> list[Any]:
    """Return the values of a key; a list is one value for a key that takes a list."""
    if not isinstance(value, list):
        return [value]
    takes_list = any(f.name == key and str(f.type).startswith("tuple") for f in dataclasses.fields(kind))
    return [value] if takes_list and not any(isinstance(v, list) for v in value) else value


def check_certificates(methods: Sequence[Any], where: str, *, training: bool, later: bool) -> None:
    """Check that an audit has the rows that its certificates need."""
    certified = [method.name for method in methods if method.design is not None]
    if certified and not training:
        raise BadInput(
            f"{where}: method {certified[0]!r} trains forests on the training rows; "
            "name them under [training]"
        )
    if not later:
        refuse_evolving(methods, where, "the rows collected since: set training.later")


def refuse_evolving(methods: Sequence[Any], where: str, needed: str) -> None:
    """Refuse certificates for the scenario `evolving`; say what they need."""
    if any(method.needs_later_rows for method in methods):
        raise BadInput(f"{where}: a certificate for scenario 'evolving' needs {needed}")


def check_forest(methods: Sequence[Any], voting: str, n_classes: int) -> None:
    """Refuse methods that do not fit how the explained forest votes."""
    for method in methods:
        try:
            method.check_forest(method.voting or voting, n_classes)
        except ValueError as error:
            raise BadInput(f"method {method.name!r}: {error}") from None


def check_tests(methods: Sequence[Any], customers: int, whom: str) -> None:
    """Refuse methods that share δ among fewer certificates than the run may make.

    `tests = 1` makes a claim about each customer alone, so it is never too small. Joint methods set their own
    number, see `settled_methods`.
    """
    certified = [method for method in methods if method.design is not None and not method.joint]
    made = customers * len(certified)
    for method in certified:
        if 1 < method.tests < made:
            needed = forests_needed(method.alpha, method.delta / made)
            raise BadInput(
                f"method {method.name!r}: tests is {method.tests:,}, but {customers:,} {whom} and "
                f"{len(certified)} certified method{'s' * (len(certified) > 1)} make up to {made:,} "
                f"certificates; set tests = {made}, which needs at least {needed} forests"
            )


def settled_methods(
    methods: Sequence[Any], customers: int, whom: str, voting: str, n_classes: int
) -> tuple[Any, ...]:
    """Return the methods with the δ of joint ones divided among all certificates that the run may make.

    Refuse certification forests that are too few for so many certificates. Say how many are needed.
    """
    try:
        settled: tuple[Any, ...] = settle_joint(methods, customers)
        for method in settled:
            method.check_forest(method.voting or voting, n_classes)
    except ValueError as error:
        raise BadInput(f"method 'certified': joint = true with {customers:,} {whom}: {error}") from None
    for method in settled:
        if method.design is not None and method.tests > 1:
            test = method.test_for(method.voting or voting, n_classes)
            _say_shared(method, counts_forests=test == "forests")
    return settled


def _say_shared(method: Any, counts_forests: bool) -> None:
    said = f"robustcf: {method.title}: {together(method.delta_each, method.tests)}"
    if counts_forests:
        said += f"; at least {method.forests_needed} certification forests are needed, {method.granting}"
        said += f"; this run has {method.forests}"
    print(said, file=sys.stderr, flush=True)
