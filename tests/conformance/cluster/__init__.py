"""The cluster as a whole: topics, access, quotas, draining, moving, restoring."""
