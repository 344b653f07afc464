"""Mirrors services/coordinator/oncelog_coordinator/shard."""
