"""Mirrors sdk/oncelog/client/once."""
