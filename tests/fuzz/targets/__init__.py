"""The parsers, by where their bytes come from."""
