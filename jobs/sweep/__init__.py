"""`robustcf sweep`: run a grid of data sets, simulations, forest sizes and methods."""
