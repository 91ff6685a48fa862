"""Write the files of customers: one to the terminal or a file, or all denied ones into a folder."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from ..export.reasons import Reasons, read_reasons
from ..inputs.errors import BadInput
from ..inputs.uri import is_local
from .card import card as model_card
from .facts import Wording, Writer, chosen_method
from .render import ENDINGS, Format, built_in, render
from .source import AuditRun


@dataclass(frozen=True)
class LetterOptions:
    """What to write about whom, and where to; `output` None is the terminal."""

    form: Format
    output: str | None = None
    customers: str | None = None
    methods: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    template: str | None = None
    reasons: str | None = None
    most_reasons: int = 4
    in_table_order: bool = False
    valid_until: str | None = None
    wanted: str | None = None


def write(address: str, options: LetterOptions, customer: str | None, *, denied: bool, card: bool) -> str:
    """Write what the command line asks for; return what is printed."""
    if denied:
        return f"{denied_letters(address, options)} customers: {options.output}"
    if card:
        text = model_card(address)
    elif customer is None:
        text = built_in(options.form)
    else:
        text = one_letter(address, customer, options)
    if options.output is None:
        return text.rstrip("\n")
    write_text(Path(options.output), text)
    return options.output


def one_letter(address: str, customer: str, options: LetterOptions) -> str:
    """Return one customer's file as text."""
    run, writer = _opened(address, options)
    (person,) = run.people(customer)
    return render(writer.facts(person), options.form, options.template)


def denied_letters(address: str, options: LetterOptions) -> int:
    """Write a file for each denied customer into a folder; return their number."""
    if options.output is None or not is_local(options.output):
        raise BadInput("--denied needs --output, a local folder")
    run, writer = _opened(address, options)
    folder, written = Path(options.output), 0
    folder.mkdir(parents=True, exist_ok=True)
    for person in run.people(None):
        text = render(writer.facts(person), options.form, options.template)
        write_text(folder / f"{_file_name(person.id)}.{ENDINGS[options.form]}", text)
        written += 1
    return written


def write_text(path: Path, text: str) -> None:
    """Write a file; an error is one clear line."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


def _opened(address: str, options: LetterOptions) -> tuple[AuditRun, Writer]:
    run = AuditRun(address, options.customers)
    reasons = Reasons() if options.reasons is None else read_reasons(options.reasons, run.schema.names)
    wording = Wording(
        reasons, options.most_reasons, options.in_table_order, options.valid_until, options.wanted
    )
    return run, Writer(run, chosen_method(run, options.methods, options.alphas), wording)


def _file_name(customer: str) -> str:
    """Return a file name for an id; ids that are not plain get a digest, so that names stay different.

    >>> _file_name("c00012"), _file_name("../a/b")[:6]
    ('c00012', '___a_b')
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", customer)[:80]
    if plain == customer:
        return plain
    return f"{plain}-{hashlib.sha256(customer.encode()).hexdigest()[:8]}"
