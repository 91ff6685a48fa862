"""Parse TOML and JSON from untrusted files, with limits on depth and number size."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Callable
from typing import Any, NoReturn

DEEPEST = 64  # levels of nesting; robustcf's own files need a tenth of this
MOST = 2**63  # integers in TOML and Parquet have 64 bits
# A dotted key with too many parts. It is refused before parsing: tomllib takes quadratic time for it.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{DEEPEST}}}")


class DocumentError(ValueError):
    """Raised for text that is not a valid document, or that exceeds a limit."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML text.

    >>> parse_toml("seed = 99999999999999999999")
    Traceback (most recent call last):
    ...
    robustcf.support.documents.DocumentError: a whole number has more than 64 bits
    """
    if _DEEP_KEY.search(text):
        raise DocumentError("nested too deeply")
    document: dict[str, Any] = _parsed(tomllib.loads, text)
    return document


def decoded(content: bytes) -> str:
    """Return a document's bytes as text, with line ends as in a text file.

    Raises a UnicodeDecodeError if the bytes are not UTF-8.
    """
    return io.StringIO(content.decode("utf-8"), newline=None).read()


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text.

    It also refuses `NaN`, `1e999` and unpaired surrogates, which could not be written back.
    """
    return _parsed(_strict_json, text)


def _parsed(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        document = parse(text)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except ValueError as error:  # also raised for integers with thousands of digits
        raise DocumentError(str(error)) from None
    level = [document]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _within(value)]
    if level:
        raise DocumentError("nested too deeply")
    return document


def _within(value: Any) -> list[Any]:
    if type(value) is int and not -MOST <= value < MOST:
        raise DocumentError("a whole number has more than 64 bits")
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _strict_json(text: str | bytes) -> Any:
    value = json.loads(text, parse_constant=_refuse_constant)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is not a number")
