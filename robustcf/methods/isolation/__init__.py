"""Points that an isolation forest of the target class accepts."""
