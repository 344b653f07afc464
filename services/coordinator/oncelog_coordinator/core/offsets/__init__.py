"""Pure decisions about committed offsets and the lag of groups."""
