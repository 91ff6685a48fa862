"""`robustcf export`: write one line per customer for other systems."""
