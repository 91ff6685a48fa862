"""`robustcf export`: one line per customer for other systems."""
