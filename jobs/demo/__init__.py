"""`robustcf demo`: a first look on embedded data."""
