"""`robustcf audit`: one forest, a table of customers, an answer for each of them."""
