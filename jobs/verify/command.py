"""`robustcf verify`: check a finished run with independent code."""

from __future__ import annotations

from rich.text import Text

from ..run.folder import RunFolder
from .auditor import NO_OWN_INPUTS, Auditor
from .retrain import Retraining
from .run import Challenge, Verified, verify_run


def verify(
    address: str,
    auditor: Auditor = NO_OWN_INPUTS,
    challenge: Challenge | None = None,
    retraining: Retraining | None = None,
) -> int:
    """Check a run, print the mismatches and return the exit code."""
    from ..terminal.printing import console

    done = verify_run(address, auditor, challenge, retraining)
    out = console()
    for line in lines(done):
        out.print(Text(line), soft_wrap=True)
    shown, total = RunFolder(address).shown, done.findings.total
    checked = f"{done.rows:,} rows of {done.customers:,} customers"
    if total:
        noun = "mismatch" if total == 1 else "mismatches"
        out.print(Text(f"✗ {shown}: {total:,} {noun} in {checked}"), soft_wrap=True)
        return 1
    out.print(Text(f"✓ {shown}: {checked} checked, no mismatch"), soft_wrap=True)
    return 0


def lines(done: Verified) -> list[str]:
    """Return lines about mismatches, challenges, and what was not checked."""
    text = []
    for kind in done.findings.kinds:
        shown, count = done.findings.shown(kind), done.findings.counts[kind]
        text += [f"{kind}: {message}" for message in shown]
        if count > len(shown):
            text.append(f"{kind}: {count - len(shown):,} more of {count:,}")
    return text + done.challenges + [f"not checked: {note}" for note in done.notes]
