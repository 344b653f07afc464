"""The producer id service: allocates ids that were never given before."""
