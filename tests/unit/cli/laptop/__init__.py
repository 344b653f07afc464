"""Mirrors sdk/oncelog_cli/laptop."""
