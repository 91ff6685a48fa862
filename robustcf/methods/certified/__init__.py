"""Points that fresh forests certify: they survive retraining with probability 1 - α."""
