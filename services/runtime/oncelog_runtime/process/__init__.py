"""Runs a service process: start, serve, drain, stop."""
