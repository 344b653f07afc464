"""Asks the brokers for metadata until one of them answers, and keeps what happened at each address.

Rule 1: any broker answers; the known brokers are asked first, then the bootstrap addresses, whenever those are silent.
Rule 2: a silent broker does not keep us from asking the next: after 250 ms both are waited for.
Rule 3: an answer with addresses, partitions or shards that cannot be is no answer: nothing of it is used, the next is asked.
Rule 4: when no broker answers within the deadline, the error names each address and what happened there (`story`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.core.told_metadata import check_address, check_partitions, check_shards
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

_NO_ANSWER: Final = "no answer yet"
_HEDGE_AFTER_MS: Final = 250
"""A broker that has not answered for so long is not waited for alone."""

Brokers = Mapping[int, str]
"""Broker id to address, as far as known."""
ShardCounts = tuple[int, int]
"""How many transaction and group shards there are; 0 = not known yet."""
Reply = pb.GetMetadataReply


class AnyBroker:
    """See the module. One per client."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._bootstrap = context.config.bootstrap_servers
        self._next_address = 0
        self._happened: dict[str, str] = {}
        self._tls_refused: set[str] = set()

    def ask_another(self) -> None:
        """The broker that answered last may see changes late: the next round begins with the one behind it."""
        self._next_address += 1

    async def ask(
        self, request: pb.GetMetadataRequest, brokers: Brokers, known: ShardCounts, deadline_ms: int
    ) -> Reply | None:
        """One round over all addresses; None when none of them answers. Raises what a further try does not mend."""
        addresses = self._addresses(brokers)
        first, self._next_address = self._next_address, 0
        running: dict[asyncio.Task[Reply | None], int] = {}
        i = 0
        try:
            while i < len(addresses) or running:
                if i < len(addresses):
                    number = (first + i) % len(addresses)
                    work = self._ask(addresses[number], request, known, deadline_ms)
                    running[asyncio.get_running_loop().create_task(work)] = number
                    i += 1
                patience_s = _HEDGE_AFTER_MS / 1000 if i < len(addresses) else None
                await asyncio.wait(running, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task.done()]:
                    number = running.pop(task)
                    reply = task.result()
                    if reply is not None:
                        self._next_address = number
                        return reply
        finally:
            for task in running:
                task.cancel()
        return None

    async def _ask(
        self, address: str, request: pb.GetMetadataRequest, known: ShardCounts, deadline_ms: int
    ) -> Reply | None:
        timeout_ms = max(1, min(deadline_ms - now_ms(), self._context.config.metadata_attempt_timeout_ms))
        self._happened.setdefault(address, _NO_ANSWER)  # an earlier refusal says more
        self._tls_refused.discard(address)
        try:
            reply, _ = await methods.GET_METADATA.call(self._context.transport, address, request, timeout_ms)
            _check(reply, known)
        except errors.OncelogError as error:
            if not error.retriable:
                raise
            self._note(address, error, timeout_ms)
            if error.context.get("tls") == "refused":
                self._tls_refused.add(address)
            return None
        self._happened.pop(address, None)
        return reply

    def _note(self, address: str, error: errors.OncelogError, timeout_ms: int) -> None:
        """Keeps what happened there; that no connection came about says less than why none did the last time."""
        is_vague = isinstance(error, errors.RequestTimedOutError) and error.context.get("unsent") == "true"
        if not is_vague or self._happened.get(address, _NO_ANSWER) == _NO_ANSWER:
            self._happened[address] = _what_happened(error, timeout_ms)

    def is_refused_by_tls(self, brokers: Brokers) -> bool:
        """True when the two sides could not agree on TLS at any address."""
        return self._tls_refused.issuperset(self._addresses(brokers))

    def story(self, brokers: Brokers) -> str:
        """Says what happened at each address."""
        told = (f"{address}: {self._happened.get(address, 'not asked yet')}" for address in self._addresses(brokers))
        return "; ".join(told)

    def _addresses(self, brokers: Brokers) -> list[str]:
        """Known brokers first, then the bootstrap addresses; each once."""
        return list(dict.fromkeys([*brokers.values(), *self._bootstrap]))


def _check(reply: Reply, known: ShardCounts) -> None:
    """Raises `InvalidResponseError` before anything of it is used."""
    for info in reply.brokers:
        check_address(info.address)
    for kind, before, count, owners in (
        ("transaction", known[0], reply.transaction_shard_count, reply.transaction_shards),
        ("group", known[1], reply.group_shard_count, reply.group_shards),
    ):
        check_shards(kind, before, count, [owner.shard for owner in owners])
        for owner in owners:
            check_address(owner.address)
    for topic in reply.topics:
        check_partitions(topic.name, [info.partition for info in topic.partitions])


def _what_happened(error: errors.OncelogError, timeout_ms: int) -> str:
    if isinstance(error, errors.RequestTimedOutError):
        return f"no {'connection' if error.context.get('unsent') == 'true' else 'answer'} within {timeout_ms} ms"
    if isinstance(error, errors.NetworkError) and error.context.get("refused") == "true":
        return "connection refused"
    if "tls" in error.context or "connect" in error.context:
        return error.message
    return str(error)
