"""Everything a user hands in: configs, addresses, tables, models, data sets."""
