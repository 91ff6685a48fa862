"""Points near training rows of the target class: the paper's 1-LOF penalty."""
