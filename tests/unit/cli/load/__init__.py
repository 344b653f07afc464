"""Mirrors sdk/oncelog_cli/load."""
