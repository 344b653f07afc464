"""Replication between brokers, and all replicas of this broker: leader, follower, ISR, hand-over of leaderships."""
