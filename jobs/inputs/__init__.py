"""Read what a user provides: configs, addresses, tables, models, data sets."""
