"""Adapters to the real world: the only modules that import gRPC, etcd, files and threads. `sim/` holds the simulated ones."""
