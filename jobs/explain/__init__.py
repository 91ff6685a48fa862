"""`robustcf explain`: one customer, printed for a person."""
