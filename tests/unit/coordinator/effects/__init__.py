"""Mirrors services/coordinator/oncelog_coordinator/effects."""
