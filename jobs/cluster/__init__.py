"""Ray: sessions, tasks, watched solver processes, threads, signals."""
