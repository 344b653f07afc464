"""The decisions of a coordinator: pure, without I/O, clock, randomness, threads or wire types."""
