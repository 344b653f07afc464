"""The listeners of a process: one for other services, one for clients in the cluster, one for clients outside of it.

Rule 1: a process always has the internal listener; without a client listener, the internal one serves clients too.
Rule 2: a caller at one listener gets addresses of the same listener, for every process, so it can reach all of them.
Rule 3: at the client and the external listener, methods of the cluster's own services are refused by name (`audience`).
Rule 4: for a peer that does not announce an address for a listener (an older one, or one without it), the next one that
        it has is given: external, client, internal.
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
    """The addresses of one process, host:port by listener; an empty one is not announced."""

    internal: str
    client: str = ""
    external: str = ""

    def on(self, listener: str) -> str:
        """Returns the address to give to a caller at this listener."""
        client = self.client or self.internal
        return {INTERNAL: self.internal, CLIENT: client, EXTERNAL: self.external or client}[listener]
