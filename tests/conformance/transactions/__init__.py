"""Transactions: coordinator, markers, visibility, outcomes."""
