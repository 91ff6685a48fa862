"""Plausible points: an isolation forest of the target class accepts them."""
