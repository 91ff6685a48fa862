"""Points near training rows of the target class: the 1-LOF penalty of the paper's appendix."""
