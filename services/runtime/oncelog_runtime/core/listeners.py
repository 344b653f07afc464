"""The doors of a process: one for other services, one for clients in the cluster, one for clients outside of it.

Rule 1: a process always has the internal listener; without a client listener, the internal one serves clients too.
Rule 2: who asks at a door is told addresses of that door, of every process, so that one way in leads everywhere.
Rule 3: at the client and the external listener, methods of the cluster's own services are refused by name (`audience`).
Rule 4: a peer that does not announce an address for a door (an older one, or one without that door) is named by the
        next one that it has: external, client, internal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERNAL: Final = "internal"
CLIENT: Final = "client"
EXTERNAL: Final = "external"
NAMES: Final = (INTERNAL, CLIENT, EXTERNAL)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where one process is reached, host:port by listener; an empty one is not announced."""

    internal: str
    client: str = ""
    external: str = ""

    def on(self, listener: str) -> str:
        """The address to give to somebody who asked at this listener."""
        client = self.client or self.internal
        return {INTERNAL: self.internal, CLIENT: client, EXTERNAL: self.external or client}[listener]
