"""`robustcf sweep`: run a grid of data sets, simulations, forests and methods."""
