"""Mirrors sdk/oncelog/client/work/observe."""
