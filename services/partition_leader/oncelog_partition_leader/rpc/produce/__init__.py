"""How batches come in: `Produce`."""
