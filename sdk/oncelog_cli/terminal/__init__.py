"""The parts that all verbs share: parsing, printing, the connection, progress."""
