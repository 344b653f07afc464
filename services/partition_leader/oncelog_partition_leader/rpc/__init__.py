"""The broker's remote methods: they translate wire messages to calls of the domain, and results back."""
