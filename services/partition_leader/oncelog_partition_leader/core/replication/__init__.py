"""Pure decisions about replication: the high watermark, sessions, who waits."""
