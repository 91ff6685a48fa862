"""Build the HTML report of a run from its tables."""
