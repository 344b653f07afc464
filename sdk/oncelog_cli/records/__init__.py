"""Verbs for records: `produce` and `consume`."""
