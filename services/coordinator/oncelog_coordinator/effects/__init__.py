"""What follows from decisions: markers to leaders and groups, questions to other shards, lag."""
