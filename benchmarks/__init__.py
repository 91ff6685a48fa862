"""The benchmark: our engine, general solvers and peer packages, measured in one run."""
