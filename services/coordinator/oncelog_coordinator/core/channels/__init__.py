"""Pure decisions about what is remembered of channels."""
