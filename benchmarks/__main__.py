"""Run the benchmark with `python -m robustcf_benchmarks`."""

import sys

from .bench import main

sys.exit(main())
