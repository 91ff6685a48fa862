"""`robustcf reproduce`: run the paper's experiments and write the results page."""
