"""Mirrors sdk/oncelog_cli/terminal."""
