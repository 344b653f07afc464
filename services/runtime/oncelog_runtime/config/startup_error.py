"""Errors that keep a process from starting; each message says what to do."""

from __future__ import annotations

from oncelog.errors import ConfigError


class AddressInUseError(ConfigError):
    """Another process listens on this port; stop it or choose another port."""
