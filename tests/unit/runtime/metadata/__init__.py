"""Mirrors services/runtime/oncelog_runtime/metadata."""
