"""The jobs around the library: the command line now, the cluster on the way."""
