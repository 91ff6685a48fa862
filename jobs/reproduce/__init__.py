"""`robustcf reproduce`: the paper's experiments and the page about them."""
