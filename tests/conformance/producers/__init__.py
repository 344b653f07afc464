"""Idempotent producers: ids, sequences, retries, and what a hostile one may try."""
