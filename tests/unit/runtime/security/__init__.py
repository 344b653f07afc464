"""Who may do what: rules, the table of methods, identities and tokens."""
