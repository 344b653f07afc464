"""Mirrors services/runtime/oncelog_runtime/core/security."""
