"""A run's claim on its folder: one run at a time, on disks and object stores.

pyarrow has no "create only if absent" for objects, so the runs elect a holder by listing the folder. Every
run writes its own claim file, `_claim/<time>-<token>.json`, and then lists the folder:

- If the run sees no other live claim, it continues.
- If the run sees an earlier claim (by name), or a claim that holds the folder, it withdraws and ends.
- If the run sees only later claims, it lists again until they are withdrawn or one of them holds the folder.

Each run writes before it lists. If two runs compete, the one that wrote last sees the other, so at most one
continues. The earliest run does not withdraw for a later claim that does not hold the folder, so one run
continues. The listing must show every file that was written before it. Disks, NFS, S3, GCS and Azure
guarantee this. Clocks only order the names.

The holder writes a second file beside its claim, `<time>-<token>.held`. Other runs then know at once that
the folder is taken.

A claim is dead if its process is gone (same host, boot and process namespace). A claim is also dead if it
was not renewed for `LAPSE` seconds by the storage's clock. The holder renews its claim every `BEAT` seconds.
A holder that slept too long may lose the folder. It then finds another claim, or misses its own, and ends.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyarrow import fs

from ..cluster.retries import CLAIM_RETRIES, with_retries
from ..cluster.signals import ask_to_stop, stop_if_asked
from ..inputs.errors import BadInput, TaskFailed, one_line
from .folder import RunFolder
from .holder import LAPSE, Rival, claim_of_this_process, own_claims, read_claim

FOLDER = "_claim"
BEAT = 30.0  # seconds between two renewals
PATIENCE = 60.0  # seconds that the earliest run waits for later runs to withdraw
LOOK = 0.1  # seconds between two listings


class OutputMoved(TaskFailed):
    """The run folder was moved or removed during the run."""

    advice = "move it back and run the same command, or set `output` to where it is now"


class ClaimLost(TaskFailed):
    """Another run took over the folder."""

    advice = "finished work is kept; wait for the other run to end"


@contextmanager
def claimed(run: RunFolder) -> Iterator[None]:
    """Hold the folder during a run; raise `BadInput` if another run holds it."""
    claim = _Claim(run)
    claim.take()
    try:
        yield
    except (TaskFailed, OSError) as error:
        if run.local and not Path(run.path(FOLDER)).is_dir():
            raise OutputMoved(f"{run.shown} was moved away or removed during the run") from error
        raise
    finally:
        claim.release()


class _Claim:
    """This run's claim."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.name = f"{time.time_ns():020d}-{secrets.token_hex(8)}.json"
        self.path = run.path(f"{FOLDER}/{self.name}")
        self.content = claim_of_this_process()
        self.made_root = False
        self.renewed = 0.0
        self.ended = threading.Event()
        self.beating = threading.Thread(target=self._beat, name="claim", daemon=True)

    def take(self) -> None:
        self.made_root = not self.run.exists()
        own_claims.add(self.name)
        try:
            self._publish()
            taken = self._elect()
        except BaseException:
            self._withdraw()
            raise
        self.run.must_stay = True
        with suppress(OSError):  # the file only shortens the wait of other runs
            self.run.publish(f"{FOLDER}/{_held_name(self.name)}", b"")
        for dead in taken:
            print(f"robustcf: {self._takeover(dead)}", file=sys.stderr, flush=True)
        self.beating.start()

    def release(self) -> None:
        self.ended.set()
        self.beating.join()
        self._withdraw()

    def _publish(self) -> None:
        for _ in range(1 + CLAIM_RETRIES):  # another run may remove the folder before our claim is in it
            with suppress(FileNotFoundError):
                with_retries(self.run.publish, f"{FOLDER}/{self.name}", self.content)
                self.renewed = time.monotonic()
                return
        raise BadInput(f"{self.run.shown}: cannot write to the run folder")

    def _elect(self) -> list[Rival]:
        """Wait until this claim is the only one; return the dead claims it removed."""
        end = time.monotonic() + PATIENCE
        removed: dict[str, Rival] = {}
        while True:
            there, rivals = with_retries(self._rivals)
            if there and not rivals:
                return list(removed.values())
            if not there:
                self._publish()
            live = [rival for rival in rivals if not rival.dead]
            for rival in rivals:
                if rival not in live:
                    removed[rival.name] = rival
                    self._delete(rival.name)
            ahead = [r for r in live if r.holds] + [r for r in live if r.name < self.name]
            if ahead or (live and time.monotonic() > end):
                raise BadInput(self._refusal((ahead or live)[0]))
            if time.monotonic() > end:
                raise BadInput(f"{self.run.shown}: the claims in {FOLDER} cannot be renewed or removed")
            stop_if_asked()
            if live:
                time.sleep(LOOK)

    def _rivals(self) -> tuple[bool, list[Rival]]:
        """Return whether our claim exists, and the other claims, earliest first."""
        selector = fs.FileSelector(self.run.path(FOLDER), allow_not_found=True)
        listed = {str(i.base_name): i for i in self.run.filesystem.get_file_info(selector)}
        found = {name: info for name, info in listed.items() if _is_claim(info)}
        mine = found.pop(self.name, None)
        if mine is None:
            return False, []
        rivals = []
        for name in sorted(found):
            known = mine.mtime_ns is not None and found[name].mtime_ns is not None
            age = (mine.mtime_ns - found[name].mtime_ns) / 1e9 if known else 0.0
            try:
                content = read_claim(self.run.read(f"{FOLDER}/{name}"))
                rivals.append(Rival(name, age, _held_name(name) in listed, content))
            except FileNotFoundError:
                continue  # the other run has just withdrawn
        return True, rivals

    def _refusal(self, rival: Rival) -> str:
        lapse = "" if rival.here else f"; if that run is dead, try again in {LAPSE / 60:.0f} minutes"
        return (
            f"{self.run.shown} is in use by another run ({rival.holder}): wait for it to end, stop it,"
            f" or choose another output{lapse}"
        )

    def _takeover(self, dead: Rival) -> str:
        return one_line(f"{self.run.shown}: taking over from a run that died ({dead.holder})")

    def _beat(self) -> None:
        """Renew the claim every `BEAT` seconds; if it is lost, ask the run to stop."""
        while not self.ended.wait(BEAT):
            with suppress(OSError):  # the storage may fail for a while
                if not self._renew() and not self.ended.is_set():
                    ask_to_stop(self._lost())
                    return

    def _renew(self) -> bool:
        late = time.monotonic() - self.renewed > LAPSE / 2
        if self.run.local:
            try:
                os.utime(self.path)
            except FileNotFoundError:
                return False
        else:
            if not self.run.exists(f"{FOLDER}/{self.name}"):
                return False
            self.run.publish(f"{FOLDER}/{self.name}", self.content)
        self.renewed = time.monotonic()
        return not (late and any(not rival.dead for rival in self._rivals()[1]))

    def _lost(self) -> TaskFailed:
        if self.run.local and not Path(self.run.path(FOLDER)).is_dir():
            return OutputMoved(f"{self.run.shown} was moved away or removed during the run")
        return ClaimLost(f"{self.run.shown}: another run took over the folder while this one was stalled")

    def _withdraw(self) -> None:
        self._delete(self.name)
        own_claims.discard(self.name)
        self.run.must_stay = False
        if self.run.local:  # an object store has no folders
            with suppress(OSError):
                os.rmdir(self.run.path(FOLDER))
                if self.made_root:
                    os.rmdir(Path(self.path).parents[1])

    def _delete(self, name: str) -> None:
        for file in (_held_name(name), name):
            with suppress(OSError):
                self.run.filesystem.delete_file(self.run.path(f"{FOLDER}/{file}"))


def live_claims(run: RunFolder) -> list[str]:
    """Return who holds the folder or wants to, earliest first. Claims of dead processes are left out."""
    selector = fs.FileSelector(run.path(FOLDER), allow_not_found=True)
    found = []
    for info in sorted(run.filesystem.get_file_info(selector), key=lambda i: str(i.base_name)):
        if _is_claim(info):
            with suppress(FileNotFoundError):  # the run has just ended
                age = 0.0 if info.mtime_ns is None else time.time() - info.mtime_ns / 1e9
                content = read_claim(run.read(f"{FOLDER}/{info.base_name}"))
                rival = Rival(str(info.base_name), age, holds=True, content=content)
                if not rival.dead:
                    found.append(rival.holder)
    return found


def _held_name(name: str) -> str:
    return name.removesuffix(".json") + ".held"


def _is_claim(info: Any) -> bool:
    name = str(info.base_name)
    return bool(info.type == fs.FileType.File) and name.endswith(".json") and not name.startswith(".")
