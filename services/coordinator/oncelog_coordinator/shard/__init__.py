"""Shards: who owns them, their log, and the runtime between a core and its log."""
