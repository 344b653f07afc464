"""Compaction of one log on its disk: passes, the replacement of segments, and what a crash leaves of them."""
