"""Pure decisions of a broker: no I/O, no clock, no threads, no wire types."""
