"""Mirrors sdk/oncelog/core/work."""
