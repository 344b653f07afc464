"""Settings of a process: where they come from, and what they may be."""
