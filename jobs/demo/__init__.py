"""`robustcf demo`: explain customers of the embedded data."""
