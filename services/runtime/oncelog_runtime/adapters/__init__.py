"""The real world: the only importers of gRPC, etcd, files and threads. `sim/` is the other world."""
