"""The data directory around the logs: the trash, what the directory can vouch for, and logs that etcd does not know."""
