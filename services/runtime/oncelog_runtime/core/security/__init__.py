"""Pure decisions about principals and rules."""
