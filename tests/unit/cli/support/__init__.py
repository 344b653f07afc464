"""Mirrors sdk/oncelog_cli/support."""
