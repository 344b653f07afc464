"""Mirrors sdk/oncelog_cli/records."""
