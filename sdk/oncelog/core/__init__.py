"""Pure decisions shared by client and servers: no I/O, no clock, no threads, no protobuf."""
