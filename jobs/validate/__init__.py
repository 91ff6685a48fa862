"""Retrained validation forests, and the command `robustcf validate`."""
