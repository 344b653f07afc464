"""Mirrors sdk/oncelog/client/produce/transactions."""
