"""Mirrors services/partition_leader/oncelog_partition_leader/partition/channels/reading."""
