"""Mirrors sdk/oncelog/client/home."""
