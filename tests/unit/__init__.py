"""Unit tests: they mirror the source tree and need nothing but Python."""
