"""One customer's optimisation problem (eq. 2): cells, moves, rules and reduction."""
