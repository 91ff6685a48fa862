"""Ray sessions and tasks, guarded solver processes, threads and signals."""
