"""Run the benchmark with `python -m robustcf_benchmarks`, which is `robustcf bench`."""

import sys

from robustcf_jobs.cli import main

main(["bench", *sys.argv[1:]])
