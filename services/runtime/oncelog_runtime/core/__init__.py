"""Pure decisions of a process about memory, quotas, listeners and access."""
