"""Pure decisions about producers: sequences, fences, transactions, and the snapshot of all that."""
