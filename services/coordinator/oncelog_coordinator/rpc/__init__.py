"""The coordinator's remote methods: wire messages in, commands to the right shard, wire messages out."""
