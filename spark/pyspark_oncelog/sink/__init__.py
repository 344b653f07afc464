"""Writing: the batch and the streaming sink."""
