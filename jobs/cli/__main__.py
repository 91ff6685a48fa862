"""The command line, started with `python -m robustcf_jobs.cli`."""

from . import main

main()
