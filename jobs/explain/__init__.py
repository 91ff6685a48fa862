"""`robustcf explain`: explain one customer."""
