"""Observers of reading: metrics and traces hang here."""
