"""Mirrors sdk/oncelog/core/batch."""
