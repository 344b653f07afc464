"""Decides, without I/O, whether a record's work may begin: it was done already, another worker has it, or it is ours."""
