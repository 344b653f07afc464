"""Verbs for the cluster: topics, partitions, nodes, groups, transactions, access."""
