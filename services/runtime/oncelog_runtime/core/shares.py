"""Divides the memory of a process among its peers and their connections: one tree for request bytes, one for answers.

Rule 1: clients with a listener of their own leave a quarter to the cluster's services, and one peer leaves half to the
        others: no peer can take everything.
Rule 2: a connection's budget exists as long as the connection is in use; bytes that its requests still hold stay
        counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog.errors import ConfigError
from oncelog_runtime.core.budget import Budget


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits in bytes. Raises `ConfigError` when a connection could never get its largest message."""

    max_message_bytes: int = 64 << 20
    request_bytes: int = 512 << 20
    """Bytes of requests that are being served, in the whole process."""
    answer_bytes: int = 256 << 20
    """Bytes of answers, from before they are made until they were sent, in the whole process."""
    request_bytes_per_connection: int = 128 << 20
    answer_bytes_per_connection: int = 64 << 20

    def __post_init__(self) -> None:
        for name in ("request_bytes", "answer_bytes"):
            if getattr(self, name) < _PARTS * self.max_message_bytes:
                raise ConfigError(
                    f"{name} is at least {_PARTS} times max_message_bytes, so that each peer can get one message",
                    setting=name,
                    value=getattr(self, name),
                    max_message_bytes=self.max_message_bytes,
                )
            if getattr(self, f"{name}_per_connection") < self.max_message_bytes:
                raise ConfigError(f"{name}_per_connection is at least max_message_bytes", setting=name)


_PARTS = 3


@dataclass(slots=True)
class Share:
    """The budgets of one connection."""

    requests: Budget
    answers: Budget
    users: int = 0


@dataclass(slots=True)
class _Peer:
    requests: Budget
    answers: Budget
    connections: dict[str, Share] = field(default_factory=dict)


class Shares:
    """Holds the budgets of all connections of a process."""

    def __init__(self, limits: MemoryLimits) -> None:
        self._limits = limits
        self.requests = Budget("process", limits.request_bytes)
        self.answers = Budget("process", limits.answer_bytes)
        self._client_requests = self.requests.child("listener", limits.request_bytes * 3 // 4)
        self._client_answers = self.answers.child("listener", limits.answer_bytes * 3 // 4)
        self._peers: dict[tuple[bool, str], _Peer] = {}

    def enter(self, peer: str, connection: str, *, is_internal: bool) -> Share:
        """Registers a user of the connection and returns its budgets; `leave` ends the use."""
        found = self._peers.get((is_internal, peer))
        if found is None:
            found = self._peers[is_internal, peer] = self._new_peer(is_internal)
        share = found.connections.get(connection)
        if share is None:
            limits = self._limits
            share = found.connections[connection] = Share(
                found.requests.child("connection", limits.request_bytes_per_connection),
                found.answers.child("connection", limits.answer_bytes_per_connection),
            )
        share.users += 1
        return share

    def leave(self, peer: str, connection: str, *, is_internal: bool) -> None:
        """Removes one user of the connection."""
        found = self._peers[is_internal, peer]
        share = found.connections[connection]
        share.users -= 1
        if share.users == 0:
            del found.connections[connection]
            if not found.connections:
                del self._peers[is_internal, peer]

    def _new_peer(self, is_internal: bool) -> _Peer:
        requests = self.requests if is_internal else self._client_requests
        answers = self.answers if is_internal else self._client_answers
        limits = self._limits
        return _Peer(
            requests.child("peer", max(limits.request_bytes // 2, limits.max_message_bytes)),
            answers.child("peer", max(limits.answer_bytes // 2, limits.max_message_bytes)),
        )

    @property
    def peers(self) -> int:
        """The number of peers with a connection."""
        return len(self._peers)
