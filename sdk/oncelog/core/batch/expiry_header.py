"""The header that says when a record expires: decimal milliseconds since 1970, as ASCII digits."""

from __future__ import annotations

from typing import Final

EXPIRES_HEADER: Final = "oncelog.expires-ms"
