"""One partition on this broker: its role, leading it, and the transactions that must not stay open in it."""
