"""The command line and the batch jobs on Ray, around the library `robustcf`."""
