"""Who reads which partition of a group: the assignors by name, as pure functions."""
