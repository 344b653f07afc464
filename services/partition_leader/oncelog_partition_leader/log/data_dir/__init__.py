"""The data directory around the logs: the trash, the claims about lost records, and logs that etcd does not know."""
