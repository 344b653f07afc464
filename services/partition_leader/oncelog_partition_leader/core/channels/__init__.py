"""Pure decisions about channels: which record goes to which worker, and how that ends (docs/internals/channels.md)."""
