"""The options that users write in `.option(...)`, checked before anything else happens."""
