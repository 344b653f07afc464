"""Opening a log: whose it is, what of its files can be trusted, and where it ends."""
