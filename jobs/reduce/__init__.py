"""Summary tables from the rows of a run."""
