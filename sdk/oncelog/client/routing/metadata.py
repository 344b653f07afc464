"""Where things are: brokers, leaders, shard owners, as the cluster last told us.

Rule 1: nothing goes back: per partition and shard the entry with the highest epoch stays, whichever broker answers last.
Rule 2: concurrent refreshes share one call; a refresh that begins after you asked is the one you wait for.
Rule 3: TLS that both sides cannot agree on at any bootstrap address is said at once: waiting does not mend it. Later,
        with a cluster that was known once, it may be a renewal under way, and is tried again like any other failure.
Rule 4: when refreshes bring nothing new for longer than a fail-over takes, the next broker is asked each time: the one that
        answers may be cut off from etcd.
Rule 5: a client that has never reached its cluster says so after `bootstrap_timeout_ms`: most likely an address is wrong.

Whom a refresh asks, and what it believes of an answer, is `AnyBroker`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.any_broker import AnyBroker
from oncelog.core.batch.hashing import shard_for
from oncelog.core.consume.near_replica import Replica
from oncelog.core.names import check_topic_name
from oncelog.types import PartitionId
from oncelog.v1 import partition_pb2 as pb

_IN_VAIN_MS = 3_000
"""Longer than a fail-over takes."""
_UNKNOWN_TOPIC_GRACE_MS = 1_000
"""A broker may hear of a new topic a little later than its creator."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition; address None = none at the moment. `followers`: the others, where brokers name their racks."""

    address: str | None
    leader_epoch: int
    rack: str = ""
    followers: tuple[Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as metadata knows it."""

    name: str
    topic_id: str
    partitions: int
    internal: bool = False


class Metadata:
    """See the module. One per client.

    Its 30 methods are questions about the cluster, and its fields are the tables that answer them.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._brokers: dict[int, str] = {}
        self._topics: dict[str, Topic] = {}
        self._names: dict[str, str] = {}
        self._leaders: dict[PartitionId, Leader] = {}
        self._wanted: dict[str, None] = {}
        self._callers: dict[str, int] = {}  # how many wait for a topic that is not known
        self._refreshed_ms: dict[str, int] = {}
        self._txn_owners: dict[int, tuple[str, int]] = {}
        self._group_owners: dict[int, tuple[str, int]] = {}
        self._revision = 0
        self._in_vain_since_ms: int | None = None
        """Since when refreshes that were requested brought nothing new; None: the last one did."""
        self._refresh: asyncio.Task[None] | None = None
        self._next_refresh: asyncio.Task[None] | None = None
        self._any_broker = AnyBroker(context)
        self.changes = 0
        """Grows when a topic comes, goes, or gets partitions."""
        self.cluster_id = ""
        self.controller: str | None = None
        self.controller_term = 0
        self.searches_logs = False
        """True while brokers are asked, after a restore of etcd, which logs they keep: a waiting topic may be made again."""
        self.txn_shards = 0
        self.group_shards = 0

    # ------------------------------------------------------------ questions

    def known_topic(self, name: str) -> Topic | None:
        """From memory; None = not known, or older than `metadata_max_age_ms`. Raises as `Context.now_ms`."""
        topic = self._topics.get(name)
        if (
            topic is None
            or self._context.now_ms() - self._refreshed_ms.get(name, 0) > self._context.config.metadata_max_age_ms
        ):
            return None
        return topic

    async def topic(self, name: str, deadline_ms: int, grace_until_ms: int | None = None) -> Topic:
        """The topic of this name. `grace_until_ms`: until then it may be new (None = for a second).

        Raises `InvalidTopicError` for what no topic is called, `UnknownTopicError` or `ClusterUnreachableError`.
        """
        if (topic := self.known_topic(name)) is not None:
            return topic
        check_topic_name(name)  # all refreshes to come name it: what is none would fail each of them
        self._callers[name] = self._callers.get(name, 0) + 1
        try:
            grace_ms = self.grace_until_ms() if grace_until_ms is None else grace_until_ms
            return await self._found(name, deadline_ms, min(deadline_ms, grace_ms))
        finally:
            self._asked(name)

    async def _found(self, name: str, deadline_ms: int, grace_ms: int) -> Topic:
        attempt = 0
        while (topic := self.known_topic(name)) is None:
            self._wanted[name] = None
            await self.refresh(deadline_ms)
            if self.known_topic(name) is None:
                self._any_broker.ask_another()  # the broker that answered may see changes late: ask another one
                attempt += 1
                if not await self._context.pause(attempt, grace_ms):
                    raise errors.UnknownTopicError.named(name)
        return topic

    def _asked(self, name: str) -> None:
        """A caller has its answer, or has gone. With the last one the name goes, unless the topic was there once: then others
        wait for it to come back.
        """
        self._callers[name] -= 1
        if not self._callers[name]:
            del self._callers[name]
            if name not in self._refreshed_ms:
                self._wanted.pop(name, None)

    def grace_until_ms(self) -> int:
        """Until when a topic that is asked for now, and that no broker knows, may be a new one."""
        return now_ms() + _UNKNOWN_TOPIC_GRACE_MS

    async def topic_with(self, name: str, partition: int, deadline_ms: int) -> Topic:
        """The topic, which has this partition; the cluster is asked about one that may have just been added.

        Raises `UnknownTopicError` or `ClusterUnreachableError`.
        """
        topic = await self.topic(name, deadline_ms)
        grace_ms = min(deadline_ms, self.grace_until_ms())
        attempt = 0
        while not 0 <= partition < topic.partitions:
            if partition < 0 or (attempt and not await self._context.pause(attempt, grace_ms)):
                raise no_partition(topic, partition)
            attempt += 1
            self._any_broker.ask_another()  # the broker that answered last may see changes late: ask another one
            await self.refresh(deadline_ms)
            topic = await self.topic(name, deadline_ms)
        return topic

    async def topic_known_as(self, name: str, topic_id: str, deadline_ms: int) -> Topic:
        """The topic of this name, most likely of this id; the cluster is asked about one that may have just been created.

        Of another id, when that is what the cluster says. Raises `UnknownTopicError` or `ClusterUnreachableError`.
        """
        topic = await self.topic(name, deadline_ms)
        grace_ms = min(deadline_ms, self.grace_until_ms())
        attempt = 0
        while topic.topic_id != topic_id:
            if attempt and not await self._context.pause(attempt, grace_ms):
                break
            attempt += 1
            self._any_broker.ask_another()  # the broker that answered last may see changes late: ask another one
            await self.refresh(deadline_ms)
            topic = await self.topic(name, deadline_ms)
        return topic

    def latest_topic(self, name: str) -> Topic | None:
        """As it was last heard of, however long ago; None = not at all."""
        return self._topics.get(name)

    def forget(self, name: str) -> None:
        """Notes that this name is out of date: the next question about it goes to the cluster."""
        topic = self._topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def newer_topic(self, name: str, topic_id: str) -> Topic | None:
        """The topic that has this name now, when it is another one than `topic_id`; from memory."""
        topic = self._topics.get(name)
        return topic if topic is not None and topic.topic_id != topic_id else None

    def topic_name(self, topic_id: str) -> str | None:
        """The name that belongs to an id; None when that topic is gone."""
        return self._names.get(topic_id)

    @property
    def revision(self) -> int:
        """The revision of the newest answer that was learnt; 0 = none yet."""
        return self._revision

    def leader(self, partition: PartitionId) -> Leader:
        """Returns the leader, as far as it is known."""
        return self._leaders.get(partition, Leader(None, -1))

    def broker_addresses(self) -> dict[int, str]:
        """Broker id to address."""
        return dict(self._brokers)

    async def txn_coordinator(self, transactional_id: str, deadline_ms: int) -> str:
        """Address of the owner of the transactional id's shard."""
        await self._ensure_cluster(deadline_ms)
        return _owner(self._txn_owners, shard_for(transactional_id, self.txn_shards), "transaction")

    async def group_coordinator(self, group_id: str, deadline_ms: int) -> str:
        """Address of the owner of the group's shard."""
        await self._ensure_cluster(deadline_ms)
        return _owner(self._group_owners, shard_for(group_id, self.group_shards), "group")

    def group_epoch(self, group_id: str) -> int:
        """Epoch in which the owner of the group's shard owns it; 0 = not known."""
        owner = self._group_owners.get(shard_for(group_id, self.group_shards)) if self.group_shards else None
        return owner[1] if owner is not None else 0

    async def coordinators(self, deadline_ms: int) -> list[str]:
        """Every address that owns a transaction shard, sorted."""
        await self._ensure_cluster(deadline_ms)
        found = sorted({address for address, _ in self._txn_owners.values()})
        if not found:
            raise errors.CoordinatorNotAvailableError("no coordinator owns a transaction shard")
        return found

    def shard_owners(self, kind: str) -> tuple[int, dict[int, tuple[str, int]]]:
        """How many shards of "transaction" or "group" there are, and (address, epoch) of each that had an owner."""
        if kind == "transaction":
            return self.txn_shards, dict(self._txn_owners)
        assert kind == "group"
        return self.group_shards, dict(self._group_owners)

    async def _ensure_cluster(self, deadline_ms: int) -> None:
        if not self.txn_shards:
            await self.refresh(deadline_ms)

    # ------------------------------------------------------------ refreshing

    async def refresh(self, deadline_ms: int) -> None:
        """Asks the cluster again. Raises `ClusterUnreachableError` at the deadline, or `WrongClusterError`.

        As long as no broker has ever answered, `bootstrap_timeout_ms` is the deadline if that is earlier.
        """
        if not self.cluster_id:
            deadline_ms = min(deadline_ms, now_ms() + self._context.config.bootstrap_timeout_ms)
        task = self._join_refresh()
        timeout_ms = max(1, deadline_ms - now_ms())
        done, _ = await asyncio.wait((task,), timeout=timeout_ms / 1000)
        if not done:
            raise errors.ClusterUnreachableError(f"no broker answered within {timeout_ms} ms: {self._story()}")
        if task.cancelled():  # by `close`: a caller that waits here was not cancelled, and learns why it ended
            self._context.home.check_open()
            raise errors.ClusterUnreachableError("the question for metadata was given up: the client is being closed")
        task.result()

    def request_refresh(self) -> asyncio.Task[None]:
        """Starts a refresh in the background, or joins the next one. Rule 4."""
        now = now_ms()
        if self._in_vain_since_ms is None:
            self._in_vain_since_ms = now
        elif now - self._in_vain_since_ms > _IN_VAIN_MS:
            self._any_broker.ask_another()
        return self._join_refresh()

    def _join_refresh(self) -> asyncio.Task[None]:
        """A refresh that has not begun yet: one that runs may have been answered before the caller's news."""
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.get_running_loop().create_task(self._run_refresh(None), name="oncelog-metadata")
            self._refresh.add_done_callback(_retrieved)
            return self._refresh
        if self._next_refresh is None or self._next_refresh.done():
            running = self._refresh
            self._next_refresh = asyncio.get_running_loop().create_task(
                self._run_refresh(running), name="oncelog-metadata-next"
            )
            self._next_refresh.add_done_callback(_retrieved)
        return self._next_refresh

    async def _run_refresh(self, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait((after,))
            self._refresh, self._next_refresh = self._next_refresh, None
        config = self._context.config
        patience_ms = max(config.request_timeout_ms, config.metadata_attempt_timeout_ms)
        deadline_ms = now_ms() + (patience_ms if self.cluster_id else config.bootstrap_timeout_ms)
        attempt = 0
        while True:
            request = pb.GetMetadataRequest(topics=list(self._wanted))
            reply = await self._any_broker.ask(request, self._brokers, self._shard_counts, deadline_ms)
            if reply is not None:
                self._learn(reply)
                return
            attempt += 1
            if not self.cluster_id and self._any_broker.is_refused_by_tls(self._brokers):
                raise errors.ClusterUnreachableError(f"no broker can be spoken to: {self._story()}")
            if not await self._context.pause(attempt, deadline_ms):
                raise errors.ClusterUnreachableError(f"no broker answered: {self._story()}")

    def _story(self) -> str:
        return self._any_broker.story(self._brokers)

    @property
    def _shard_counts(self) -> tuple[int, int]:
        """How many transaction and group shards there are; 0 = not known yet."""
        return self.txn_shards, self.group_shards

    async def close(self) -> None:
        """Ends refreshes that run."""
        tasks = [task for task in (self._refresh, self._next_refresh) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ------------------------------------------------------------ learning

    def _learn(self, reply: pb.GetMetadataReply) -> None:
        if self.cluster_id and reply.cluster_id != self.cluster_id:
            raise errors.WrongClusterError(
                "an address answers for another cluster", known=self.cluster_id, answered=reply.cluster_id
            )
        self.cluster_id = reply.cluster_id
        for topic in reply.topics:
            self._learn_leaders(topic, reply)
        self._learn_owners(self._txn_owners, reply.transaction_shards)
        self._learn_owners(self._group_owners, reply.group_shards)
        self.txn_shards = reply.transaction_shard_count or self.txn_shards
        self.group_shards = reply.group_shard_count or self.group_shards
        if reply.revision < self._revision:
            return  # an older view: epochs above were merged, names and brokers stay
        if reply.revision > self._revision:
            self._in_vain_since_ms = None
        self._revision = reply.revision
        if reply.brokers:
            self._brokers = {info.broker.broker_id: info.address for info in reply.brokers}
        self.controller = self._brokers.get(reply.controller.broker_id) if reply.HasField("controller") else None
        self.controller_term = reply.controller_term
        self.searches_logs = reply.searches_logs
        for topic in reply.topics:
            self._learn_topic(topic)

    def _learn_topic(self, info: pb.TopicInfo) -> None:
        before = self._topics.get(info.name)
        if info.HasField("error"):
            self._topics.pop(info.name, None)
        else:
            self._topics[info.name] = Topic(info.name, info.topic_id, len(info.partitions), info.internal)
            self._refreshed_ms[info.name] = now_ms()
        self.changes += self._topics.get(info.name) != before
        self._names = {topic.topic_id: name for name, topic in self._topics.items()}

    def _learn_leaders(self, info: pb.TopicInfo, reply: pb.GetMetadataReply) -> None:
        brokers = {item.broker.broker_id: item for item in reply.brokers}
        racked = {key: Replica(item.address, item.rack) for key, item in brokers.items() if item.rack}
        for item in info.partitions:
            key = PartitionId(info.topic_id, item.partition)
            known = self._leaders.get(key)
            if known is not None and known.leader_epoch > item.leader_epoch:
                continue
            address, leads = None, None
            if item.HasField("leader"):
                leads = item.leader.broker_id
                broker = brokers.get(leads)
                # A restarted process at the same address does not lead what its former life led.
                if broker is not None and broker.broker.incarnation == item.leader.incarnation:
                    address = broker.address
            others = tuple(
                racked[broker_id] for broker_id in item.replicas if broker_id in racked and broker_id != leads
            )
            rack = racked[leads].rack if leads in racked else ""
            self._leaders[key] = Leader(address, item.leader_epoch, rack, others)

    @staticmethod
    def _learn_owners(known: dict[int, tuple[str, int]], owners: Iterable[pb.ShardOwner]) -> None:
        for owner in owners:
            if owner.epoch >= known.get(owner.shard, ("", -1))[1]:
                known[owner.shard] = (owner.address, owner.epoch)


def no_partition(topic: Topic, partition: int) -> errors.UnknownTopicError:
    """The error that says which partitions there are."""
    return errors.UnknownTopicError(
        f"topic `{topic.name}` has the partitions 0 to {topic.partitions - 1}", partition=partition
    )


def created_again(
    topic: str, partition: int = -1, advice: str = "seek, or assign it anew, to read the new one"
) -> errors.UnknownTopicError:
    """The error of a caller that may not go on with the new topic by itself; `partition` -1: none in particular."""
    text = f"topic `{topic}` was deleted and created again: records of the deleted topic that were not read are lost; {advice}"
    if partition >= 0:
        return errors.UnknownTopicError(text, topic=topic, partition=partition)
    return errors.UnknownTopicError(text, topic=topic)


def _owner(owners: dict[int, tuple[str, int]], shard: int, kind: str) -> str:
    found = owners.get(shard)
    if found is None:
        raise errors.CoordinatorNotAvailableError(f"nobody owns the {kind} shard", shard=shard)
    return found[0]


def _retrieved(task: asyncio.Task[None]) -> None:
    """The callers that waited have the error; a background refresh that failed is tried again by the next caller."""
    if not task.cancelled():
        task.exception()
