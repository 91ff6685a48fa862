"""Compute the paper's tables and figures from rows, without reading files."""
