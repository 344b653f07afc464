"""Mirrors sdk/oncelog/trace."""
