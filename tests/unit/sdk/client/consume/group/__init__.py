"""Mirrors sdk/oncelog/client/consume/group."""
