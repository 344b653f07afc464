"""Pure decisions of a consumer."""
