"""The console script `robustcf`, also `python -m robustcf_jobs`.

The library installs without the packages that the commands need. This module imports none of them, so that
it can name the extra to install.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import NoReturn

NEEDED = (
    "fsspec",
    "jinja2",
    "markupsafe",
    "matplotlib",
    "pyarrow",
    "pydantic",
    "ray",
    "rich",
    "skops",
    "typer",
)


def main() -> NoReturn:
    """Run a command, or exit with code 2 and say what to install."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"robustcf: the commands need {', '.join(missing)}; install with: pip install 'robustcf[jobs]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from .cli import main as run

    run()


if __name__ == "__main__":
    main()
