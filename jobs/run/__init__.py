"""The run folder: its files, its manifest, and the rows in its tables."""
