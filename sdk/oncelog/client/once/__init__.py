"""Work that happens once outside of the log: the program's own database remembers what was done, in the same transaction."""
