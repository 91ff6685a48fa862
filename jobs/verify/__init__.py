"""`robustcf verify`: a finished run checked from its files."""
