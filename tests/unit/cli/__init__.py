"""The command line without a cluster."""
