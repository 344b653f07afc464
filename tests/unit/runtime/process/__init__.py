"""Mirrors services/runtime/oncelog_runtime/process."""
