"""Compute the paper's tables and figures from the rows of finished runs, without reading files."""
