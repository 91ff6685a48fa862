"""One customer's optimisation problem: cells, allowed moves, rules, and the reduced problem itself."""
