"""The broker: partition logs, replication and the controller."""
