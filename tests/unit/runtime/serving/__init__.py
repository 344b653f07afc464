"""Mirrors services/runtime/oncelog_runtime/serving."""
