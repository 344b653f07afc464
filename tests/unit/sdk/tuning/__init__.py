"""Mirrors sdk/oncelog/tuning."""
