"""Mirrors services/partition_leader/oncelog_partition_leader/rpc/produce."""
