"""Mirrors services/coordinator/oncelog_coordinator/core/group_shard."""
