"""One suite per port, run on the real implementation and on the simulated one."""
