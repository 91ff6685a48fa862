"""The benchmark: our engine, general solvers and peer packages in one run."""
