"""Pure decisions about replication: the high watermark, sessions with followers, and requests that wait for an offset."""
