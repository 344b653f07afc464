"""The broker's remote methods: wire messages in, calls of the domain, wire messages out."""
