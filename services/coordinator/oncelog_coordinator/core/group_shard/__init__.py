"""The decisions of a group shard, with members, committed offsets and channels in one log. Pure."""
