"""Render a customer's file: HTML, plain text or JSON, with our template or the user's."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from ..inputs.errors import BadInput
from ..terminal.printable import escaped

Format = Literal["html", "json", "text"]
FORMATS: tuple[Format, ...] = ("html", "json", "text")
ENDINGS = {"html": "html", "json": "json", "text": "txt"}
BUILT_IN = {"html": "letter.html.j2", "text": "letter.txt.j2"}


def built_in(form: Format) -> str:
    """Return the source of the built-in template, to edit."""
    if form not in BUILT_IN:
        raise BadInput("JSON has no template; choose --format html or text")
    return _asset(BUILT_IN[form])


def render(facts: dict[str, Any], form: Format, template: str | None = None) -> str:
    """Return a customer's file as text.

    Parameters
    ----------
    facts : dict
        The content, see `facts.Writer`.
    form : {"html", "json", "text"}
    template : str, optional
        Path of the user's own Jinja2 template; in HTML, it is rendered with all values escaped.
    """
    if form == "json":
        return escaped(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
    style = _asset("letter.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    try:
        return _compiled(form, template).render(**facts, style=style, policy=policy)
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadInput(f"{template or BUILT_IN[form]}: {error}") from None


@cache
def _compiled(form: Format, template: str | None) -> Template:
    try:
        source = _asset(BUILT_IN[form]) if template is None else Path(template).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{template}: cannot be read as a template: {error}") from None
    environment = SandboxedEnvironment(
        autoescape=form == "html", undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")
