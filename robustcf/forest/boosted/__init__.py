"""Gradient boosting of two classes: readers of four libraries, and the sum that decides."""
