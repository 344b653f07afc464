"""Reading: the batch and the streaming source."""
