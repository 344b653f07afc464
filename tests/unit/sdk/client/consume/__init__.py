"""Mirrors sdk/oncelog/client/consume."""
