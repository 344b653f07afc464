"""Replication: leaders, followers, ISR, elections, disks."""
