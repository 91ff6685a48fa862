"""`robustcf audit`: explain every customer of a table with one forest."""
