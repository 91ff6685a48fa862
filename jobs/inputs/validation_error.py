"""Turn a pydantic error into one line that names the key and what is allowed."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from .secrets import scrubbed

LONGEST = 100  # characters of a value that an error shows
UNKNOWN_KEY = "unexpected_keyword_argument"
ALLOWED = {
    "bool_type": "true or false",
    "dataclass_type": "a table",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "greater than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_type": "a whole number",
    "label_type": "text or a number",
    "less_than_equal": "at most {le:g}",
    "literal_error": "{expected}",
    "mapping_type": "a table",
    "string_type": "text",
    "tuple_type": "a list",
}
FORBIDDEN = {"null": "null", "too_short": "empty"}


def first_problem(error: ValidationError, kind: Any) -> str:
    """Return what is wrong with the first bad key of a table of dataclass `kind`.

    An unknown key comes first: a misspelt key is often the reason why another one is missing.
    """
    problems = error.errors(include_url=False)
    unknown = [problem for problem in problems if problem["type"] == UNKNOWN_KEY]
    problem = min(unknown, key=lambda found: len(found["loc"])) if unknown else problems[0]
    names = [str(part) for part in problem["loc"] if not isinstance(part, int) and part != "[key]"]
    *tables, key = names or [""]
    return ": ".join([*tables, _words(problem, key, kind)])


def _words(problem: Mapping[str, Any], key: str, kind: Any) -> str:
    name, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    if name == UNKNOWN_KEY:
        return f"unknown key {key!r}; allowed keys: {', '.join(_keys(kind, problem['loc'][:-1]))}"
    if name == "missing" and isinstance(problem["loc"][-1], int):
        return f"{key} has an entry with too few values"
    if name == "missing":
        return f"key {key!r} is missing"
    if name in FORBIDDEN:
        return f"{key} must not be {FORBIDDEN[name]}"
    if name in ALLOWED:
        return f"{key} must be {ALLOWED[name].format(**context)}, not {_shown(value)}".lstrip()
    if name == "string_pattern_mismatch":
        return f"{key} lists {_shown(value)}, which is not a valid name"
    said = str(context.get("error", problem["msg"]))
    return f"{key}: {said}" if key else said


def _shown(value: Any) -> str:
    text = scrubbed(repr(value))  # first, since a part of an address may hide where its secret ends
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _keys(kind: Any, path: Sequence[int | str]) -> list[str]:
    """Return the keys of the table at a path in a table of dataclass `kind`."""
    for part in path:
        hint = typing.get_type_hints(kind)[str(part)]
        kind = next(t for t in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(t))
    return [f.name for f in dataclasses.fields(kind)]
