"""Workers of channels: they are given records one by one, and say what became of each."""
