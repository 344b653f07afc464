"""Mirrors sdk/oncelog/client/produce."""
