"""`robustcf verify`: check a finished run from its files."""
