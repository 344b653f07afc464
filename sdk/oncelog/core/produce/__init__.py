"""Pure decisions of a producer: what waits, what is in flight, what a transaction may do next."""
