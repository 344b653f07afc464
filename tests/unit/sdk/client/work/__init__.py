"""Mirrors sdk/oncelog/client/work."""
