"""Words from anyone's data on a terminal: what would command it is made visible."""

from __future__ import annotations

import re

# Control characters but tab and line feed, and those that turn the reading direction.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Text that is only text.

    >>> printable("clerk\\x1b[2J")
    'clerk�[2J'
    """
    return _COMMANDS.sub("\ufffd", text)


def escaped(document: str) -> str:
    """A JSON or TOML document that says the same in characters that are only text.

    >>> escaped('{"job": "clerk\\u202e"}')
    '{"job": "clerk\\\\u202e"}'
    """
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
