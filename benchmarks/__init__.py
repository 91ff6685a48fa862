"""The benchmark: our engine, general solvers and peers, measured side by side in one run."""
