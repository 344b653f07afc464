"""Mirrors sdk/oncelog/core/once."""
