"""Measurements: ratios, taken side by side in one run. `make bench` runs them all.

gRPC is imported here as the services import it. An older tree that is measured against this one has no way of its own.
"""

from contextlib import suppress

with suppress(ModuleNotFoundError):
    from oncelog_runtime.adapters.grpc_poller import import_grpc

    import_grpc()
