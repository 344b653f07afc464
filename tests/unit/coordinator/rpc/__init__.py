"""Mirrors services/coordinator/oncelog_coordinator/rpc."""
