"""The work of `oncelog node`: finds the node, speaks to it alone, and waits until it is drained.

Rule 1: a node is drained when it has been *seen* to drain: a process that says "not draining" after it was asked has
        not begun (it was restarted), and is asked again.
Rule 2: every wait is bounded by `--timeout`; a retriable error is waited out until then.
Rule 3: `--self` speaks to the service of this environment, at its internal listener and with its certificates.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.client.client import Client
from oncelog.client.routing.calls import name_call
from oncelog.errors import ConfigError, LeaderNotAvailableError, OncelogError
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_check import PemPaths
from oncelog.link.tls_files import TlsFiles
from oncelog.ports import Transport
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_cli.terminal.session import client_options

BROKER: Final = "broker"
COORDINATOR: Final = "coordinator"
ALLOCATOR: Final = "pid-allocator"
_LOOK_S: Final = 0.2
_CALL_TIMEOUT_MS: Final = 5_000
_STATES: Final = {
    types_pb2.DRAIN_STATE_NOT_DRAINING: "not draining",
    types_pb2.DRAIN_STATE_DRAINING: "draining",
    types_pb2.DRAIN_STATE_DRAINED: "drained",
    types_pb2.DRAIN_STATE_SKIPPED: "skipped",
}
_PREFIXES: Final = {
    "ONCELOG_PARTITION_LEADER_": BROKER,
    "ONCELOG_COORDINATOR_": COORDINATOR,
    "ONCELOG_PID_ALLOCATOR_": ALLOCATOR,
}
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Node:
    """One process, and how to speak to it. `broker_id` None: the process that listens there, whichever it is."""

    kind: str
    address: str
    transport: Transport
    broker_id: int | None = None

    async def ask(self, action: int) -> Row:
        """One call. Raises what the node refuses with, or the network's errors."""
        if self.kind == ALLOCATOR:
            return {"kind": ALLOCATOR, "node": self.address, "state": "nothing to do"}
        if self.kind == COORDINATOR:
            coordinator = await self._ask_coordinator(types_pb2.DRAIN_ACTION_STATUS, 0)
            if action != types_pb2.DRAIN_ACTION_STATUS:
                coordinator = await self._ask_coordinator(action, coordinator.term)
            return {
                "kind": COORDINATOR,
                "node": coordinator.address,
                "state": _STATES[coordinator.state],
                "shards": coordinator.shards,
                "reason": coordinator.reason,
            }
        broker = await self._ask_broker(types_pb2.DRAIN_ACTION_STATUS, 0)
        if action != types_pb2.DRAIN_ACTION_STATUS:
            broker = await self._ask_broker(action, broker.broker.incarnation)
        return {
            "kind": BROKER,
            "node": broker.broker.broker_id,
            "state": _STATES[broker.state],
            "leaderships": broker.leaderships,
            "needed": broker.needed,
            "in_sync": broker.in_sync,
            "controller": broker.controller,
            "reason": broker.reason,
        }

    async def _ask_coordinator(self, action: int, term: int) -> co.DrainCoordinatorReply:
        request = co.DrainCoordinatorRequest(action=action)  # type: ignore[arg-type]
        name_call(request, secrets.token_hex(16), term)
        reply, _ = await methods.DRAIN_COORDINATOR.call(self.transport, self.address, request, _CALL_TIMEOUT_MS)
        return reply

    async def _ask_broker(self, action: int, incarnation: int) -> pb.DrainBrokerReply:
        request = pb.DrainBrokerRequest(action=action)  # type: ignore[arg-type]
        if self.broker_id is not None:
            request.broker_id = self.broker_id
        name_call(request, secrets.token_hex(16), incarnation)
        reply, _ = await methods.DRAIN_BROKER.call(self.transport, self.address, request, _CALL_TIMEOUT_MS)
        return reply


# ---------------------------------------------------------------- what is done


async def drain(node: Node, timeout_s: float, say: Callable[[str], None] = lambda _text: None) -> Row:
    """Starts the drain and waits for its end. Returns the last state when the time has passed; raises if there was none.

    `say` is called with the progress.
    """
    deadline = time.monotonic() + timeout_s
    row: Row | None = None
    failure: OncelogError | None = None
    action: int = types_pb2.DRAIN_ACTION_START
    while True:
        wait_s = _LOOK_S
        try:
            row = await node.ask(action)
            if row["state"] in ("drained", "skipped", "nothing to do"):
                return row
            say(_how_far(row))
            action = types_pb2.DRAIN_ACTION_START if row["state"] == "not draining" else types_pb2.DRAIN_ACTION_STATUS
        except OncelogError as error:
            if not error.retriable:
                raise
            failure, wait_s = error, max(_LOOK_S, error.retry_after_ms / 1000)
            action = types_pb2.DRAIN_ACTION_START
        if time.monotonic() + wait_s >= deadline:
            break
        await asyncio.sleep(wait_s)
    if row is None:
        assert failure is not None, "each turn ends in a state or in an error"
        return {"kind": node.kind, "node": _name(node), "state": "not draining", "reason": str(failure)}
    return row


def _how_far(row: Row) -> str:
    reason = f", {row['reason']}" if row.get("reason") else ""
    return f"{row['kind']} {row['node']}: {row['state']}{reason}"


def _name(node: Node) -> object:
    return node.address if node.broker_id is None else node.broker_id


async def undrain(node: Node) -> Row:
    """Ends the drain; returns what the node is then."""
    return await node.ask(types_pb2.DRAIN_ACTION_CANCEL)


async def status(node: Node) -> Row:
    """Returns the drain state of the node."""
    return await node.ask(types_pb2.DRAIN_ACTION_STATUS)


# ---------------------------------------------------------------- whom it is done to


def run(args: argparse.Namespace, work: Callable[[Node], Awaitable[Row]]) -> Row:
    """Finds the node that the flags name and works on it. Raises `OncelogError`."""
    if args.myself:
        return asyncio.run(_on_myself(work))

    async def session() -> Row:
        async with _client(args) as client:
            return await work(await _find(client, args))

    return asyncio.run(session())


def run_on_all(args: argparse.Namespace) -> list[Row]:
    """The state of every broker, and of every coordinator that owns a shard; one that does not answer says so."""

    async def session() -> list[Row]:
        async with _client(args) as client:
            health = await client.admin.cluster_health()
            transport = client._context.transport
            nodes = [Node(BROKER, address, transport, broker_id) for broker_id, address in health.brokers]
            nodes += [Node(COORDINATOR, address, transport) for address in await _coordinators(client)]
            return list(await asyncio.gather(*map(_status_or_error, nodes)))

    return asyncio.run(session())


async def _status_or_error(node: Node) -> Row:
    try:
        return await node.ask(types_pb2.DRAIN_ACTION_STATUS)
    except OncelogError as error:
        return {"kind": node.kind, "node": _name(node), "state": "no answer", "reason": str(error)}


def _client(args: argparse.Namespace) -> Client:
    return Client(args.bootstrap_servers, client_id="oncelog-cli", **client_options(args))


async def _coordinators(client: Client) -> list[str]:
    try:
        return await client._metadata.coordinators(client._context.deadline_ms())
    except OncelogError:
        return []


async def _find(client: Client, args: argparse.Namespace) -> Node:
    transport = client._context.transport
    if args.coordinator:
        return Node(COORDINATOR, args.coordinator, transport)
    health = await client.admin.cluster_health()
    address = dict(health.brokers).get(args.node)
    if address is None:
        known = ", ".join(str(broker_id) for broker_id, _ in health.brokers)
        raise LeaderNotAvailableError(f"broker {args.node} is not registered; registered are {known}")
    return Node(BROKER, address, transport, args.node)


async def _on_myself(work: Callable[[Node], Awaitable[Row]]) -> Row:
    kind, address = myself(os.environ)
    paths = own_certificates(os.environ)
    transport = GrpcTransport(tls=ClientTls(TlsFiles(paths)) if paths is not None else None)
    try:
        return await work(Node(kind, address, transport))
    finally:
        await transport.close()


def own_certificates(environ: Mapping[str, str]) -> PemPaths | None:
    """The files with which the service of this environment speaks to others; None = plaintext."""
    prefix = next((p for p in _PREFIXES if environ.get(f"{p}TLS_CERT_FILE")), None)
    if prefix is None:
        return None
    settings = [f"{prefix}TLS_{kind}_FILE" for kind in ("CERT", "KEY", "CA")]
    return PemPaths(*(environ.get(setting, "") for setting in settings), *settings)


def myself(environ: Mapping[str, str]) -> tuple[str, str]:
    """(kind, host:port) of the service that this environment configures. Raises `ConfigError`.

    The advertised address when there is one (a certificate names it), else this host and the internal listener's port.
    """
    found = [(kind, prefix) for prefix, kind in _PREFIXES.items() if any(name.startswith(prefix) for name in environ)]
    with_port = [(kind, prefix) for kind, prefix in found if environ.get(f"{prefix}LISTEN_PORT", "0") != "0"]
    if len(with_port or found) != 1:
        raise ConfigError(
            "--self needs the environment of one service: ONCELOG_PARTITION_LEADER_LISTEN_PORT, "
            "ONCELOG_COORDINATOR_LISTEN_PORT or ONCELOG_PID_ALLOCATOR_LISTEN_PORT",
            found=",".join(kind for kind, _ in found) or "none",
        )
    kind, prefix = (with_port or found)[0]
    port = environ.get(f"{prefix}LISTEN_PORT", "0")
    address = environ.get(f"{prefix}ADVERTISED_ADDRESS", "")
    if kind != ALLOCATOR and not address and port == "0":
        raise ConfigError(f"set {prefix}LISTEN_PORT or {prefix}ADVERTISED_ADDRESS: it is not known where it listens")
    return kind, address or f"127.0.0.1:{port}"
