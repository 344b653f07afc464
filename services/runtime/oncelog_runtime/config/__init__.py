"""Settings of a process: their sources, and their checks."""
