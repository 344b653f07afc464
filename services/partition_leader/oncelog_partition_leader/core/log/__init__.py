"""Pure decisions about one log: segments, leader epochs, retention, which batch may enter."""
