"""The coordinator without a network."""
