"""Mirrors sdk/oncelog/errors."""
