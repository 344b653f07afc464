"""Pure decisions of a leader about the commands in its queue: what is appended, what waits, and how each is answered."""
