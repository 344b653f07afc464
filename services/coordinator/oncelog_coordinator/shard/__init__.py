"""Shards: their ownership, their log, and the runtime between a core and its log."""
