"""Mirrors sdk/oncelog/client/routing."""
