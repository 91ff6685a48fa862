"""Retrained validation forests, and `robustcf validate` for points made by any tool."""
