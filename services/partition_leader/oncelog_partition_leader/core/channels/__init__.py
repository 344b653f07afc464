"""Pure decisions about channels: which record goes to which worker, and what is remembered of it (docs/internals/channels.md)."""
