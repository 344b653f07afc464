"""Channels on the partitions that this broker leads: everything around `core/channels` that reads, waits, calls and writes."""
