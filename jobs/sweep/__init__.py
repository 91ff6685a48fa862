"""`robustcf sweep`: data sets, simulations, forest sizes and methods."""
