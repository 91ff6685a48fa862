"""Make text from untrusted data safe for a terminal."""

from __future__ import annotations

import re

# Control characters except tab and line feed, and characters that change the text direction.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Replace characters that control the terminal by U+FFFD.

    >>> printable("clerk\\x1b[2J")
    'clerk�[2J'
    """
    return _COMMANDS.sub("\ufffd", text)


def escaped(document: str) -> str:
    """Escape characters that control the terminal in a JSON or TOML document.

    >>> escaped('{"job": "clerk\\u202e"}')
    '{"job": "clerk\\\\u202e"}'
    """
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
