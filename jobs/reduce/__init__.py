"""Compute the summary tables of a run."""
