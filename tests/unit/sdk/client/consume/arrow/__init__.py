"""Mirrors sdk/oncelog/client/consume/arrow."""
