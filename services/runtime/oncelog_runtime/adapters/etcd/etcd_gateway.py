"""Two questions to an etcd over its JSON gateway, without a client: the names of its members, and the value of a key.

Rule: a failed request counts as an empty answer; the caller repeats it until its own deadline.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import ssl
import urllib.request
from dataclasses import dataclass
from typing import Final

from oncelog.core.malformed import MALFORMED, JsonObject
from oncelog.link.tls_check import PemPaths

_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class EtcdGateway:
    """Asks one etcd. `address` is host:port for clients; `tls`: our certificate and the CA of etcd's."""

    address: str
    tls: PemPaths | None = None

    def member_names(self) -> list[str]:
        """Returns the names that the members were started with; empty when etcd does not answer."""
        try:
            return [str(member.get("name", "")) for member in self._ask("cluster/member/list", {})["members"]]
        except MALFORMED:
            return []

    def get(self, key: str) -> bytes | None:
        """Returns the value of a key; None = it does not exist, or etcd does not answer."""
        answer = self._ask("kv/range", {"key": base64.b64encode(key.encode()).decode()})
        try:
            return base64.b64decode(answer["kvs"][0]["value"])
        except (*MALFORMED, binascii.Error):
            return None

    def _ask(self, path: str, question: dict[str, str]) -> JsonObject:
        context = None
        if self.tls is not None:
            context = ssl.create_default_context(cafile=self.tls.ca)
            context.load_cert_chain(self.tls.cert, self.tls.key)
        url = f"{'http' if context is None else 'https'}://{self.address}/v3/{path}"
        request = urllib.request.Request(url, json.dumps(question).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:
                found = json.load(answer)
        except (OSError, ValueError, http.client.HTTPException):  # the last: it does not speak HTTP
            return {}
        return found if isinstance(found, dict) else {}
