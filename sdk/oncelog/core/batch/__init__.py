"""The bytes of a batch, what identifies it, and which partition a record goes to."""
