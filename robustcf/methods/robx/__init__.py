"""RobX (Dutta et al. 2022): a heuristic that moves towards stable training rows."""
