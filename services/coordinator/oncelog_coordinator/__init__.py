"""Transactions, consumer groups and committed offsets."""
