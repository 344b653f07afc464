"""Pure decisions of the producer id service."""
