"""`robustcf history`: the key figures of many audits, and the promises that retraining broke."""
