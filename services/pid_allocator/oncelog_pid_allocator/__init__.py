"""The producer id service: ids that nobody was ever given."""
