"""Support for serving a call, whatever the transport: the caller, its limits, and the process to go to instead."""
