"""What users write in `.option(...)`, checked before anything else happens."""
