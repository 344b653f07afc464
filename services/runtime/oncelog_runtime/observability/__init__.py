"""Metrics, health and logs of a process."""
