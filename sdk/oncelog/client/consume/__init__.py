"""Consumers, and offsets of groups."""
