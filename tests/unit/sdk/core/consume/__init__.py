"""Mirrors sdk/oncelog/core/produce."""
