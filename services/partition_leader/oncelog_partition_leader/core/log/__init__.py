"""Pure decisions about one log: segments, leader epochs, retention, and which batches are accepted."""
