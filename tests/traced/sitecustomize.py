"""Python imports this module at its start if its folder is on the path: it then records every call.

Each line of the file `WAY_TRACE` is one call of a function of `robustcf/` or `jobs/`: the chain of our own
functions that led to it, the called one last. The driver, Ray's workers and the guarded children all write to
the same file. Calls during an import are left out.
"""

import os
import sys
from types import CodeType, FrameType
from typing import Any

OPTIMIZED = 1  # the flag of functions; module and class bodies lack it


def record(path: str, root: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ours = tuple(os.path.join(root, folder, "") for folder in ("robustcf", "jobs"))
    known: dict[CodeType, str | None] = {}

    def name(code: CodeType) -> str | None:
        if code not in known:
            inside = code.co_filename.startswith(ours) and code.co_filename.endswith(".py")
            function = code.co_qualname.split(".<locals>")[0]  # an inner function belongs to its outer one
            known[code] = f"{os.path.relpath(code.co_filename, root)}:{function}" if inside else None
        return known[code]

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_flags & OPTIMIZED or name(frame.f_code) is None:
            return
        chain: list[str] = []
        caller: FrameType | None = frame
        while caller is not None:
            own = name(caller.f_code)
            if own is not None and caller.f_code.co_name == "<module>":
                return
            if own is not None and own not in chain[-1:]:
                chain.append(own)
            caller = caller.f_back
        os.write(file, ("|".join(reversed(chain)) + "\n").encode())

    sys.setprofile(called)


if "WAY_TRACE" in os.environ:
    record(os.environ["WAY_TRACE"], os.environ["WAY_ROOT"])
