"""`robustcf export --customer` and `--card`: a customer's file, and a page for the model's file."""
