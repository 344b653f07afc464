"""What all verbs share: parsing, printing, the connection, progress."""
