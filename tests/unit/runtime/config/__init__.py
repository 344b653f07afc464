"""Mirrors services/runtime/oncelog_runtime/config."""
