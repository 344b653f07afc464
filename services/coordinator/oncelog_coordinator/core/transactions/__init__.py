"""Pure decisions about transactions."""
