"""Mirrors services/partition_leader/oncelog_partition_leader/cluster/topics."""
