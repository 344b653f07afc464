"""Mirrors sdk/oncelog/client/consume/observe."""
