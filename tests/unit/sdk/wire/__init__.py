"""Mirrors sdk/oncelog/wire."""
