"""TOML and JSON from anybody's file: plain values of bounded size, or one line that says why not."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any, NoReturn

DEEPEST = 64  # tables within tables; files of ours need a tenth of it
MOST = 2**63  # TOML's whole numbers, and Parquet's, have 64 bits
# A key of more parts than tables may be nested: tomllib's time grows with the square of their number.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{DEEPEST}}}")


class DocumentError(ValueError):
    """What is no document, or holds what no file of ours does."""


def parse_toml(text: str) -> dict[str, Any]:
    """The document.

    >>> parse_toml("seed = 99999999999999999999")
    Traceback (most recent call last):
    ...
    robustcf.support.documents.DocumentError: a whole number of more than 64 bits
    """
    if _DEEP_KEY.search(text):
        raise DocumentError("nested too deeply")
    document: dict[str, Any] = _parsed(tomllib.loads, text)
    return document


def parse_json(text: str | bytes) -> Any:
    """The value; `NaN`, `1e999` and half characters, which cannot be written again, are refused too."""
    return _parsed(_strict_json, text)


def _parsed(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        document = parse(text)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except ValueError as error:  # also of numbers with thousands of digits
        raise DocumentError(str(error)) from None
    level = [document]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _within(value)]
    if level:
        raise DocumentError("nested too deeply")
    return document


def _within(value: Any) -> list[Any]:
    if type(value) is int and not -MOST <= value < MOST:
        raise DocumentError("a whole number of more than 64 bits")
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _strict_json(text: str | bytes) -> Any:
    value = json.loads(text, parse_constant=_refuse_constant)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is no number")
