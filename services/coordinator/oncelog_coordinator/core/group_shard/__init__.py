"""What a group shard decides, with members, committed offsets and channels in one log. Pure."""
