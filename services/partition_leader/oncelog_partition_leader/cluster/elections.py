"""The controller's elections: looks at partitions, asks replicas for their logs, and writes the new leaders.

The decisions themselves are made in `core/cluster/election.py`.

Rule 1: one commit is for as many partitions as etcd allows (`chunks`). It compares the mod revisions of each partition, of
        each broker that it puts into an ISR, and of each topic, whose `min_insync_replicas` decides which replicas are
        eligible, as it was when that was decided. A commit that failed is tried partition by partition.
Rule 2: questions to replicas run beside the controller's task. Their answers count only for the value of the partition for
        which they were asked, and the view is looked at again afterwards.
        A value from before the last restore of etcd, or a guess, is not believed (`elect_restored`). An answer with a later
        epoch than etcd has proves a restore that has not been noticed.
Rule 3: a partition that cannot be led now is looked at again when a broker or the partition changes in etcd, and, while
        it waits for brokers that are registered, after `_AGAIN_S`, and then less and less often.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oncelog.errors import (
    IneligibleReplicaError,
    InvalidRequestError,
    OncelogError,
    RequestTimedOutError,
    UnknownTopicError,
)
from oncelog.types import BrokerRef, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog_partition_leader.cluster.controller_term import Commit
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.cluster.election import (
    Answers,
    Brokers,
    elect,
    elect_restarted,
    elect_restored,
    elect_unclean,
    found_elsewhere,
    holders,
    is_guess,
    leads_as_preferred,
    needs_answers,
    prefer,
    transfer,
)
from oncelog_partition_leader.core.cluster.proposals import Proposal, chunks
from oncelog_partition_leader.core.replication.replica_state import LogState, ReplicaState, Seal
from oncelog_partition_leader.log.topic_config import TopicConfig, min_insync_of
from oncelog_runtime.metadata.cluster_keys import Partition, broker_key, partition_key, topic_key
from oncelog_runtime.metadata.cluster_view import ClusterView, Versioned
from oncelog_runtime.node_ports import NodePorts
from oncelog_runtime.ports import Compare, Put
from oncelog_runtime.process.tasks import TaskOwner

_log = logging.getLogger(__name__)
_RETRY_S = 0.01
_AGAIN_S = 0.1
_AGAIN_MAX_S = 2.0
Entry = Versioned[Partition]


@dataclass(frozen=True, slots=True)
class Survey:
    """The facts that an operator needs before an unclean election. `answers`: those of all replicas that answered."""

    entry: Entry
    answers: Answers
    has_leader: bool

    @property
    def partition(self) -> Partition:
        """The partition's value in etcd."""
        return self.entry.value


class Elections:
    """The controller's elections. `brokers()`: the brokers as it knows them now; `wake()` has it step again.

    `forgotten(what)` is called with each proof that etcd was restored.

    It has some 25 methods: one for each reason of an election, and the steps to its end: ask, decide, write.
    """

    def __init__(
        self,
        config: BrokerConfig,
        ports: NodePorts,
        view: ClusterView,
        tasks: TaskOwner,
        commit: Commit,
        brokers: Callable[[], Brokers],
        wake: Callable[[], None],
        forgotten: Callable[[str], None],
    ) -> None:
        self._defaults = TopicConfig(min_insync_replicas=config.min_insync_replicas)
        self._timeout_ms = config.replicate_timeout_ms
        self._metadata = ports.metadata
        self._transport = ports.transport
        self._view = view
        self._tasks = tasks
        self._commit = commit
        self._brokers = brokers
        self._wake = wake
        self._forgotten = forgotten
        self._changed: dict[PartitionId, None] = {}
        self._all_changed = True
        self._asking: dict[PartitionId, None] = {}
        self._again_s = _AGAIN_S

    @property
    def due(self) -> bool:
        """True when there are partitions to look at."""
        return bool(self._changed) or self._all_changed

    def look_at(self, partition_id: PartitionId) -> None:
        """Has `step` look at a partition that has changed."""
        self._changed[partition_id] = None

    def look_at_all(self) -> None:
        """Has `step` look at all partitions, since the brokers have changed."""
        self._all_changed = True
        self._again_s = _AGAIN_S

    async def step(self) -> None:
        """Writes every election that is due. Raises as the controller's commits do."""
        looked_at = list(self._view.partitions) if self._all_changed else list(self._changed)
        self._all_changed = False
        self._changed.clear()
        brokers = self._brokers()
        proposals: list[Proposal] = []
        restarted: dict[PartitionId, Entry] = {}
        for partition_id in looked_at:
            entry = self._view.partitions.get(partition_id)
            if entry is None:
                continue
            if self._is_doubtful(entry):
                if partition_id not in self._asking:
                    restarted[partition_id] = entry
                continue
            wanted = elect(entry.value, brokers, self._min_insync(entry.value))
            if wanted is not None:
                proposals.append((partition_id, entry.mod_revision, wanted))
            elif self._must_ask(partition_id, entry, brokers):
                restarted[partition_id] = entry
        proposals.sort(key=self._has_leader)
        await self._write(proposals)
        if restarted:
            self._asking.update(dict.fromkeys(restarted))
            self._tasks.spawn(self._ask_and_elect(restarted, brokers), "elect-restarted")

    def _has_leader(self, proposal: Proposal) -> bool:
        """Partitions without a leader come first: of the others only the ISR changes, for which no caller waits."""
        entry = self._view.partitions.get(proposal[0])
        return entry is not None and entry.value.leader == proposal[2].leader

    def _must_ask(self, partition_id: PartitionId, entry: Entry, brokers: Brokers) -> bool:
        if partition_id in self._asking or not needs_answers(entry.value, brokers):
            return False
        return any(ref.broker_id in brokers.live for ref in holders(entry.value))

    async def rebalance(self) -> None:
        """Gives leadership back to preferred replicas."""
        brokers = self._brokers()
        proposals: list[Proposal] = []
        for partition_id, entry in self._view.partitions.items():
            if leads_as_preferred(entry.value):
                continue  # all of a quiet cluster do: looked at first, this round costs it next to nothing
            if self._is_doubtful(entry):
                continue  # written again it would be believed
            wanted = prefer(entry.value, brokers, self._min_insync(entry.value))
            if wanted is not None:
                proposals.append((partition_id, entry.mod_revision, wanted))
        await self._write(proposals)

    async def transfer(self, partition_id: PartitionId, to: int, in_epoch: int | None = None) -> None:
        """Makes another member of the ISR leader on an operator's request. Safe to repeat; `in_epoch` None = any epoch.

        Raises `UnknownTopicError`, `InvalidRequestError` for a broker without a replica, `IneligibleReplicaError` for one that
        may be in sync later, or `RequestTimedOutError` when something changed meanwhile.
        """
        entry, ref = self._require(partition_id), BrokerRef(to, self._view.live().get(to, 0))
        if entry.value.leader == ref:
            return
        if in_epoch is not None and entry.value.leader_epoch != in_epoch:
            raise RequestTimedOutError("the partition changed meanwhile: look again", epoch=entry.value.leader_epoch)
        _require_replica(entry.value, to)
        if self._is_doubtful(entry):
            raise RequestTimedOutError("an election after the restore of etcd comes first: try again")
        wanted = transfer(entry.value, ref, self._brokers(), self._min_insync(entry.value))
        if wanted is None:
            isr = ",".join(str(ref.broker_id) for ref in entry.value.isr)
            raise IneligibleReplicaError("only a living member of the ISR can lead", broker=to, isr=isr)
        if not await self._write_decided([(partition_id, entry.mod_revision, wanted)]):
            raise RequestTimedOutError("the partition changed meanwhile: try again")

    # ------------------------------------------------------------ an operator's election

    async def survey(self, partition_id: PartitionId) -> Survey:
        """Asks every reachable replica for its log. Raises `UnknownTopicError`."""
        entry, brokers = self._require(partition_id), self._brokers()
        named = [BrokerRef(broker_id, 0) for broker_id in entry.value.replicas]
        found = await self._ask_all({partition_id: entry}, {partition_id: brokers.now(named)})
        return Survey(entry, found.get(partition_id, {}), entry.value.leader in brokers.living(entry.value.isr))

    async def elect_unclean(self, partition_id: PartitionId, to: int, leader_epoch: int) -> None:
        """Makes a replica lead that may lack acknowledged records.

        `leader_epoch`: the epoch in the survey that the operator saw; a repeated call finds another one and is refused.
        Raises `UnknownTopicError`, `InvalidRequestError`, `IneligibleReplicaError` (it leads, changed, or does not answer).
        """
        survey = await self.survey(partition_id)
        partition, answers = survey.partition, survey.answers
        _require_replica(partition, to)
        if survey.has_leader:
            raise IneligibleReplicaError("the partition has a leader: nothing needs to be lost", broker=to)
        if partition.leader_epoch != leader_epoch:
            raise IneligibleReplicaError("the partition changed: look at it again", leader_epoch=partition.leader_epoch)
        if to not in answers:
            raise IneligibleReplicaError("this broker does not answer: start it first", broker=to)
        wanted = elect_unclean(partition, answers[to][0], answers, self._replication_factor(partition))
        _log.warning("unclean election of %s, asked for by an operator: %s", partition_id, wanted.leader)
        if not await self._write_decided([(partition_id, survey.entry.mod_revision, wanted)]):
            raise RequestTimedOutError("the partition changed meanwhile: look at it again")

    def _require(self, partition_id: PartitionId) -> Entry:
        entry = self._view.partitions.get(partition_id)
        if entry is None:
            raise UnknownTopicError("no such partition", partition=partition_id.partition)
        return entry

    def _min_insync(self, partition: Partition) -> int:
        return min_insync_of(self._view, partition.topic, self._defaults)

    # ------------------------------------------------------------ writing

    async def _write(self, proposals: Sequence[Proposal]) -> None:
        """Writes elections. The caller has decided them from the view as it is at this call."""
        topics = self._topics_of(proposals)
        for chunk in chunks(proposals):
            if not await self._write_chunk(chunk, topics):
                for one in chunk:
                    if self._topics_of([one]).items() <= topics.items():
                        await self._write_one(one, topics)
                    else:  # decided by options that are no more: no write of it can hold
                        self.look_at(one[0])

    async def _write_decided(self, chunk: Sequence[Proposal]) -> bool:
        """Writes one chunk, decided from the view as it is at this call. True when it was written."""
        return await self._write_chunk(chunk, self._topics_of(chunk))

    async def _write_one(self, proposal: Proposal, topics: Mapping[str, int]) -> None:
        if not await self._write_chunk([proposal], topics):
            found = await self._metadata.get(partition_key(*proposal[0]))
            if found is not None:
                self._view.learn([found])
            self.look_at(proposal[0])
            await asyncio.sleep(_RETRY_S)  # the view is behind: the watch may catch up

    async def _write_chunk(self, chunk: Sequence[Proposal], topics: Mapping[str, int]) -> bool:
        named: dict[BrokerRef, None] = {}
        for _, _, value in chunk:
            named.update(dict.fromkeys(() if is_guess(value) else value.isr))  # it claims nothing of them
        compares = [Compare(broker_key(ref.broker_id), ref.incarnation) for ref in named]
        compares += [Compare(partition_key(*partition_id), revision) for partition_id, revision, _ in chunk]
        named_topics = dict.fromkeys(value.topic for _, _, value in chunk if value.topic in topics)
        compares += [Compare(topic_key(name), topics[name]) for name in named_topics]
        puts = [Put(partition_key(*partition_id), value.encode()) for partition_id, _, value in chunk]
        for partition_id, _, value in chunk:
            _log.info("electing %s: leader %s, epoch %d", partition_id, value.leader, value.leader_epoch)
        succeeded = await self._commit(compares, puts)
        if not succeeded and len(chunk) == 1:
            _log.info("the election of %s did not hold", chunk[0][0])
        return succeeded

    def _topics_of(self, proposals: Sequence[Proposal]) -> dict[str, int]:
        """Returns the mod revisions of the topics by whose options this was decided. The view changes while chunks are written:
        a revision that is read later would pass for options by which nothing was decided.
        """
        topics = dict.fromkeys(value.topic for _, _, value in proposals)
        return {name: self._view.topics[name].mod_revision for name in topics if name in self._view.topics}

    # ------------------------------------------------------------ asking

    async def _ask_and_elect(self, entries: dict[PartitionId, Entry], brokers: Brokers) -> None:
        """Asks the holders of restarted partitions for their logs, and elects where the answers suffice."""
        try:
            proposals, askable = self._named_everywhere(entries, brokers)
            whom = {partition_id: brokers.now(self._asked(entry)) for partition_id, entry in askable.items()}
            answers = await self._ask_all(askable, whom)
            for partition_id, entry in askable.items():
                if await self._knows_less(partition_id, entry, answers.get(partition_id, {})):
                    await self._pause()
                    return  # other values of etcd may be as old
            for partition_id, entry in askable.items():
                told = answers.get(partition_id, {})
                if self._is_doubtful(entry):
                    since, replicas = self._view.restored_at(), self._replication_factor(entry.value)
                    wanted = elect_restored(entry.value, told, since, brokers.avoid, replicas)
                else:
                    wanted = elect_restarted(entry.value, told, self._min_insync(entry.value), brokers.avoid)
                if wanted is not None:
                    proposals.append((partition_id, entry.mod_revision, wanted))
            await self._write(proposals)
            if len(proposals) < len(entries):
                await self._pause()
        except OncelogError as error:
            _log.warning("election after a restart: %s", error)
            await self._pause()
        finally:
            for partition_id in entries:
                self._asking.pop(partition_id, None)
                self.look_at(partition_id)
            self._wake()

    def _named_everywhere(
        self, entries: dict[PartitionId, Entry], brokers: Brokers
    ) -> tuple[list[Proposal], dict[PartitionId, Entry]]:
        """Returns the partitions that have logs at brokers which a restored etcd does not name, with these as replicas too; and
        those that can be asked now. Where it is not known yet, a partition is in neither.
        """
        found: list[Proposal] = []
        askable: dict[PartitionId, Entry] = {}
        dead = {ref.broker_id for ref in brokers.dead if brokers.live.get(ref.broker_id) == ref.incarnation}
        for partition_id, entry in entries.items():
            is_open = self._view.is_doubtful(entry) or entry.value.leader_epoch < 0  # not an operator's guess
            keepers = brokers.kept.elsewhere(partition_id, dead) if is_open else ()
            if keepers is None:
                continue
            wanted = found_elsewhere(entry.value, keepers)
            if wanted is None:
                askable[partition_id] = entry
            else:
                _log.warning("%s has logs at brokers that etcd does not name: %s", partition_id, wanted.replicas)
                found.append((partition_id, entry.mod_revision, wanted))
        return found, askable

    def _replication_factor(self, partition: Partition) -> int:
        topic = self._view.topics.get(partition.topic)
        return topic.value.replication_factor if topic is not None else 0

    async def _knows_less(self, partition_id: PartitionId, entry: Entry, told: Answers) -> bool:
        """Returns True when etcd, or only the view, is behind an epoch of a log. If etcd is, its restore is reported."""
        epoch = max((state.epoch for _, state in told.values()), default=-1)
        if epoch <= entry.value.leader_epoch or self._is_doubtful(entry):
            return False
        found = await self._metadata.get(partition_key(*partition_id))
        if found is None or found.mod_revision != entry.mod_revision:
            self._view.learn([] if found is None else [found])  # the view was behind
        else:
            self._forgotten(f"epoch {epoch} of {entry.value.topic}-{partition_id.partition}")
        return True

    def _is_doubtful(self, entry: Entry) -> bool:
        return self._view.is_doubtful(entry) or is_guess(entry.value)

    def _asked(self, entry: Entry) -> tuple[BrokerRef, ...]:
        """Returns the replicas to ask: the holders; after a restore of etcd all replicas."""
        if self._is_doubtful(entry):
            return tuple(BrokerRef(broker_id, 0) for broker_id in entry.value.replicas)
        return holders(entry.value)

    async def _pause(self) -> None:
        """Pauses: a registered broker did not answer or has not opened its logs yet, or others must come back first."""
        pause_s, self._again_s = self._again_s, min(self._again_s * 1.5, _AGAIN_MAX_S)
        await asyncio.sleep(pause_s)

    async def _ask_all(
        self, entries: dict[PartitionId, Entry], whom: dict[PartitionId, tuple[BrokerRef, ...]]
    ) -> dict[PartitionId, dict[int, tuple[BrokerRef, ReplicaState]]]:
        """Sends one question to each broker, all at the same time."""
        questions: dict[BrokerRef, list[PartitionId]] = {}
        for partition_id in entries:
            for ref in whom[partition_id]:
                questions.setdefault(ref, []).append(partition_id)
        told = await asyncio.gather(*(self._ask(ref, asked) for ref, asked in questions.items()))
        answers: dict[PartitionId, dict[int, tuple[BrokerRef, ReplicaState]]] = {}
        for ref, states in zip(questions, told, strict=True):
            for partition_id, state in states:
                answers.setdefault(partition_id, {})[ref.broker_id] = ref, state
        return answers

    async def _ask(self, ref: BrokerRef, partitions: list[PartitionId]) -> list[tuple[PartitionId, ReplicaState]]:
        address = self._view.address_of(ref.broker_id)
        if address is None:
            return []
        request = pb.ReplicaStatusRequest(
            broker=types_pb2.BrokerRef(broker_id=ref.broker_id, incarnation=ref.incarnation),
            partitions=[types_pb2.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in partitions],
            restored_at=self._view.restored_at(),
        )
        try:
            reply, _ = await methods.REPLICA_STATUS.call(self._transport, address, request, self._timeout_ms)
        except OncelogError as error:
            _log.info("replica status of broker %d: %s", ref.broker_id, error)
            return []
        known = [item for item in reply.partitions if not item.HasField("error")]
        return [(PartitionId(item.topic_id, item.partition), _state_of(item)) for item in known]


def _state_of(item: pb.ReplicaState) -> ReplicaState:
    log = LogState(item.last_epoch, item.log_end_offset)
    seal = item.seal
    return ReplicaState(
        log,
        item.intact_since,
        item.known_since,
        item.high_watermark,
        item.known_epoch,
        Seal(seal.incarnation, seal.leader_epoch, seal.end_offset) if item.HasField("seal") else None,
    )


def _require_replica(partition: Partition, broker_id: int) -> None:
    if broker_id not in partition.replicas:
        replicas = ",".join(map(str, partition.replicas))
        raise InvalidRequestError("this broker has no replica of the partition", broker=broker_id, replicas=replicas)
