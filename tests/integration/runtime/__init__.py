"""The runtime on real sockets and processes."""
