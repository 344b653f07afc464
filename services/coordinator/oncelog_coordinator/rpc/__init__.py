"""The coordinator's remote methods: they turn wire messages into commands to the right shard, and answers into messages."""
