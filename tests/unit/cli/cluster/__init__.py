"""Mirrors sdk/oncelog_cli/cluster."""
