"""Mirrors sdk/oncelog/sync."""
