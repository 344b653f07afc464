"""What a stranger does to a running cluster, and what it costs the cluster."""
