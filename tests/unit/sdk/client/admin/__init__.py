"""Mirrors sdk/oncelog/client/admin."""
