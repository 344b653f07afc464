"""The observers of replication and of the remote methods: the place where metrics and traces get their events."""
