"""Mirrors sdk/oncelog/link."""
