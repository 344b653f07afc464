"""One partition on this broker: its role, its leadership, and the transactions that must not stay open in it."""
