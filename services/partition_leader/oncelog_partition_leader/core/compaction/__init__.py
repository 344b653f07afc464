"""Pure decisions of compaction: when a log is due, which records stay, and what a batch becomes without the others."""
