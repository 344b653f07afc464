"""Mirrors services/coordinator/oncelog_coordinator/core/channels."""
