"""`robustcf verify`: a finished run held against its own files, by code that solved none of it."""

from __future__ import annotations

from rich.text import Text

from ..run.folder import RunFolder
from .auditor import NOTHING_OF_HIS_OWN, Auditor
from .run import Challenge, Verified, verify_run


def verify(address: str, auditor: Auditor = NOTHING_OF_HIS_OWN, challenge: Challenge | None = None) -> int:
    """Check a run and print what was found; the exit code."""
    from ..terminal.printing import console

    done = verify_run(address, auditor, challenge)
    out = console()
    for line in lines(done):
        out.print(Text(line), soft_wrap=True)
    shown, total = RunFolder(address).shown, done.findings.total
    checked = f"{done.rows:,} rows of {done.customers:,} customers"
    if total:
        out.print(Text(f"✗ {shown}: {total:,} mismatches; {checked} were looked at"), soft_wrap=True)
        return 1
    out.print(Text(f"✓ {shown}: {checked} are what the files say"), soft_wrap=True)
    return 0


def lines(done: Verified) -> list[str]:
    """The mismatches, kind by kind, then what was tried beyond the files, then what was not checked."""
    said = []
    for kind in done.findings.kinds:
        shown, count = done.findings.shown(kind), done.findings.counts[kind]
        said += [f"{kind}: {message}" for message in shown]
        if count > len(shown):
            said.append(f"{kind}: {count - len(shown):,} more of {count:,}")
    return said + done.said + [f"not checked: {note}" for note in done.notes]
