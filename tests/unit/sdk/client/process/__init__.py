"""Reading, working and writing, each input once."""
