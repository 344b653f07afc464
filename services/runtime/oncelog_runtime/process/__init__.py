"""The life of a service process: start, serve, drain, end."""
