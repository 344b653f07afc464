"""Observers of a worker: traces hang here."""
