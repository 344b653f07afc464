"""Mirrors services/runtime/oncelog_runtime/observability."""
