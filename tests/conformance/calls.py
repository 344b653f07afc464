"""Raw calls of a script: batches, sessions, transactions, participants, offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from oncelog import errors
from oncelog.core.batch.batch import MAX_UNCOMPRESSED_BYTES, encode_batch
from oncelog.core.batch.header import CODEC_NONE, CODEC_ZSTD, NO_SHARD, partition_tag
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pa
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.core.log.batch_check import RECORD_BYTES_MIN
from oncelog_partition_leader.rpc.produce import produce_service
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.looking import Looking
from tests.conformance.names import ABORTED, ALL, COMMITTED, TIMEOUT_MS, Joined, Place, Writer, counts_of
from tests.sealing import sealed
from tests.simulation.cluster import SimCluster


@contextmanager
def unread_payloads() -> Iterator[None]:
    """Brokers take payloads unread: as many records as the header claims would take hours to make."""
    with mock.patch.object(produce_service, "check_payload"):
        yield


class Calls(Looking):
    """Speaks the wire contract by hand."""

    def __init__(self, started: SimCluster) -> None:
        super().__init__(started)
        self.transport = started.world.client("script")
        self._bulk: Any = b""

    # ------------------------------------------------------------ raw calls

    async def call(
        self, node: str, spec: MethodSpec[Any, Any], request: Any, payload: bytes = b"", timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        """One remote call to one node, by hand. Raises its error."""
        address = self.world.nodes[node].address
        reply, bulk = await spec.call(self.transport, address, request, timeout_ms, payload)
        self._bulk = bulk
        return reply

    async def ask(self, transactional_id: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        """One call to the owner of an id, tried again while it should be."""
        return await self.retry(lambda: self._ask_once(self.owner(transactional_id), spec, request))

    async def ask_group(self, group_id: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        """One call to the owner of a group, tried again while it should be."""
        return await self.retry(lambda: self._ask_once(self.group_owner(group_id), spec, request))

    async def _ask_once(self, node: str, spec: MethodSpec[Any, Any], request: Any) -> Any:
        if not node:
            raise errors.CoordinatorNotAvailableError("nobody owns the shard")
        return await self.call(node, spec, request)

    # ------------------------------------------------------------ batches

    def batch(self, place: Place, writer: Writer, *values: str, seq: int = 0, codec: int = CODEC_NONE) -> bytes:
        """A data batch as a producer would send it."""
        return encode_batch(
            [None] * len(values),
            [value.encode() for value in values],
            timestamps_ms=[self.now_ms] * len(values),
            codec=codec,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            base_sequence=seq,
            txn_producer_id=writer.txn_producer_id,
            txn_no=writer.txn_no,
            txn_shard=writer.txn_shard,
            topic_id=place.topic_id,
            partition=place.partition,
        )

    def huge_batch(
        self, place: Place, writer: Writer, seq: int, count: int, payload: bytes = bytes(4096), **claims: int
    ) -> bytes:
        """A batch that claims as many records as a well compressed one may have, and holds none of them (`unread_payloads`).

        `claims` are other fields of the header.
        """
        fields: dict[str, int] = {
            "codec": CODEC_ZSTD,
            "attributes": 0,
            "schema_id": 0,
            "record_count": count,
            "producer_id": writer.producer_id,
            "producer_epoch": writer.epoch,
            "base_sequence": seq,
            "txn_producer_id": -1,
            "txn_no": 0,
            "base_timestamp_ms": self.now_ms,
            "max_timestamp_ms": self.now_ms,
            "uncompressed_length": MAX_UNCOMPRESSED_BYTES,
            "tag": partition_tag(place.topic_id, place.partition),
            "txn_shard": NO_SHARD,
        }
        return sealed(payload, **{**fields, **claims})

    async def use_up(self, place: Place, writer: Writer, sequences: int) -> None:
        """Writes batches that take the producer's first `sequences` sequences, and as many offsets."""
        largest = MAX_UNCOMPRESSED_BYTES // RECORD_BYTES_MIN
        with unread_payloads():
            for seq in range(0, sequences, largest):
                await self.produce(place, self.huge_batch(place, writer, seq, min(largest, sequences - seq)))

    async def produce(
        self,
        place: Place,
        data: bytes,
        *,
        acks: int = ALL,
        to: str = "",
        timeout_ms: int = 1_500,
        tid: str = "",
        token: bytes = b"",
    ) -> pa.ProducePartitionReply:
        """One produce call to the leader (or the node `to`). Raises the partition's error."""
        item = pa.ProducePartition(
            topic_id=place.topic_id,
            partition=place.partition,
            length=len(data),
            transactional_id=tid,
            session_token=token,
        )
        request = pa.ProduceRequest(acks=acks, timeout_ms=timeout_ms, partitions=[item])
        reply = await self.call(to or self.leader(place), methods.PRODUCE, request, data, timeout_ms + 1_000)
        if acks == 0 and not reply.partitions:
            return pa.ProducePartitionReply()
        (answer,) = reply.partitions
        if answer.HasField("error"):
            raise from_detail(answer.error)
        return answer

    async def write(
        self, place: Place, writer: Writer, *values: str, seq: int = 0, codec: int = CODEC_NONE, **how: Any
    ) -> int:
        """One batch to the leader; its base offset."""
        data = self.batch(place, writer, *values, seq=seq, codec=codec)
        answer = await self.produce(place, data, tid=writer.transactional_id, token=writer.token, **how)
        return int(answer.base_offset)

    # ------------------------------------------------------------ sessions and transactions

    async def producer(self) -> Writer:
        """A plain idempotent producer."""
        reply = await self.ask("any", methods.INIT_PRODUCER_ID, co.InitProducerIdRequest())
        return Writer(reply.producer_id, reply.producer_epoch, token=reply.session_token)

    async def session(self, tid: str = "t", *, timeout_ms: int = 60_000, nonce: str = "", **more: int) -> Writer:
        """A new session; the writer is in its next transaction."""
        request = co.InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=timeout_ms, nonce=nonce, **more)
        reply = await self.ask(tid, methods.INIT_PRODUCER_ID, request)
        own = reply.producer_id
        return Writer(own, reply.producer_epoch, own, reply.next_txn_no, reply.txn_shard, tid, reply.session_token)

    async def enrol(self, writer: Writer, *places: Place, groups: Sequence[str] = ()) -> None:
        """Enrols partitions ahead."""
        request = co.EnrolPartitionsRequest(
            name=writer.name, partitions=[place.to_proto() for place in places], groups=groups
        )
        await self.ask(writer.transactional_id, methods.ENROL_PARTITIONS, request)

    def end_request(
        self, writer: Writer, commit: bool = True, counts: dict[Place, int] | None = None, visible: bool = False
    ) -> co.EndTransactionRequest:
        """END of a writer's transaction."""
        return co.EndTransactionRequest(
            name=writer.name,
            outcome=COMMITTED if commit else ABORTED,
            wait=co.END_WAIT_VISIBLE if visible else co.END_WAIT_DECIDED,
            counts=counts_of(counts or {}),
        )

    async def end(
        self, writer: Writer, commit: bool = True, counts: dict[Place, int] | None = None, visible: bool = False
    ) -> co.EndTransactionReply:
        """Ends a transaction at its owner."""
        request = self.end_request(writer, commit, counts, visible)
        reply: co.EndTransactionReply = await self.ask(writer.transactional_id, methods.END_TRANSACTION, request)
        return reply

    async def outcome(self, writer: Writer) -> int:
        """COMMITTED, ABORTED, ONGOING or NOT_BEGUN."""
        request = co.GetOutcomeRequest(transactional_id=writer.transactional_id, txn_no=writer.txn_no)
        return int((await self.ask(writer.transactional_id, methods.GET_OUTCOME, request)).outcome)

    def resolve_request(
        self, writer: Writer, place: Place | None = None, epoch: int = 0
    ) -> co.ResolveTransactionRequest:
        """A leader's question. `epoch`: as in `marker_request`; 0 = it knows none."""
        return co.ResolveTransactionRequest(
            txn_shard=writer.txn_shard,
            txn_producer_id=writer.txn_producer_id,
            txn_no=writer.txn_no,
            topic_id=place.topic_id if place else "",
            partition=place.partition if place else 0,
            known_coordinator_epoch=self.coordinator_epoch(writer, epoch) if epoch else 0,
        )

    async def resolve(self, writer: Writer, place: Place | None = None) -> co.ResolveTransactionReply:
        """Asks what became of a transaction, as a leader does."""
        request = self.resolve_request(writer, place)
        reply: co.ResolveTransactionReply = await self.ask(
            writer.transactional_id, methods.RESOLVE_TRANSACTION, request
        )
        return reply

    def marker_request(
        self, writer: Writer, *places: Place, commit: bool = True, epoch: int = 1, **more: Any
    ) -> pa.WriteTxnMarkersRequest:
        """Markers as the coordinator sends them; `epoch` counts from the shard's epoch of now, which is 1."""
        markers = [
            pa.TxnMarker(
                topic_id=place.topic_id,
                partition=place.partition,
                txn_producer_id=writer.txn_producer_id,
                txn_no=writer.txn_no,
                session_epoch=writer.epoch,
                outcome=COMMITTED if commit else ABORTED,
                **{"expected_records": -1, **more},
            )
            for place in places
        ]
        coordinator_epoch = self.coordinator_epoch(writer, epoch)
        return pa.WriteTxnMarkersRequest(
            txn_shard=writer.txn_shard, coordinator_epoch=coordinator_epoch, markers=markers
        )

    def coordinator_epoch(self, writer: Writer, number: int = 1) -> int:
        """The epoch of the writer's shard as etcd says it now, and those above."""
        item = self.world.metadata.get(keys.shard_epoch_key(keys.KIND_TXN, writer.txn_shard))
        return number - 1 + (int(item.value) if item is not None else 0)

    async def mark(self, node: str, request: pa.WriteTxnMarkersRequest, timeout_ms: int = TIMEOUT_MS) -> list[int]:
        """Sends markers to a broker; their offsets. Raises the first error."""
        reply = await self.call(node, methods.WRITE_TXN_MARKERS, request, timeout_ms=timeout_ms)
        for answer in reply.markers:
            if answer.HasField("error"):
                raise from_detail(answer.error)
        return [answer.marker_offset for answer in reply.markers]

    # ------------------------------------------------------------ many writers

    async def join(
        self, tid: str = "q", run: str = "run-1", batch: int = 0, attempt: str = "1", app: str = "app", **more: int
    ) -> Joined:
        """A task joins; raises `AssertionError` for ALREADY_COMMITTED, which `join_reply` shows."""
        reply = await self.join_reply(tid, run, batch, attempt, app, **more)
        assert not reply.already_committed
        writer = Writer(
            reply.producer_id,
            reply.producer_epoch,
            reply.txn_producer_id,
            reply.txn_no,
            reply.txn_shard,
            tid,
            reply.session_token,
        )
        return Joined(writer)

    async def join_reply(
        self, tid: str, run: str, batch: int, attempt: str = "1", app: str = "app", **more: int
    ) -> co.JoinTransactionReply:
        """The whole answer to a join."""
        request = co.JoinTransactionRequest(
            transactional_id=tid,
            owner_run=run,
            token=co.CommitToken(app_id=app, batch_id=batch),
            write_attempt=attempt,
            **more,
        )
        reply: co.JoinTransactionReply = await self.ask(tid, methods.JOIN_TRANSACTION, request)
        return reply

    async def write_as(self, joined: Joined, place: Place, *values: str, seq: int = 0) -> None:
        """A participant writes and counts what was acknowledged."""
        await self.write(place, joined.writer, *values, seq=seq)
        joined.counts[place] = joined.counts.get(place, 0) + len(values)

    async def commit_batch(
        self,
        tid: str,
        txn_no: int,
        winners: Iterable[Joined],
        run: str = "run-1",
        batch: int = 0,
        attempt: str = "1",
        app: str = "app",
        *,
        expires: bool = False,
    ) -> co.CommitTransactionReply:
        """The driver commits."""
        winners = list(winners)
        request = co.CommitTransactionRequest(
            transactional_id=tid,
            owner_run=run,
            txn_no=txn_no,
            token=co.CommitToken(app_id=app, batch_id=batch, expires=expires),
            winners=[joined.winner for joined in winners],
            write_attempt=attempt,
            session_token=next((joined.writer.token for joined in winners), b""),
        )
        reply: co.CommitTransactionReply = await self.ask(tid, methods.COMMIT_TRANSACTION, request)
        return reply

    # ------------------------------------------------------------ offsets of groups

    def offsets_request(
        self, writer: Writer, group: str, place: Place, offset: int, sequence: int
    ) -> co.SendOffsetsRequest:
        """Offsets inside a transaction, of a group without members."""
        return co.SendOffsetsRequest(
            name=writer.name,
            member=co.GroupMember(group_id=group, member_epoch=-1),
            commit_sequence=sequence,
            offsets=[self._entry(place, offset)],
        )

    @staticmethod
    def _entry(place: Place, offset: int) -> co.OffsetEntry:
        return co.OffsetEntry(
            topic_id=place.topic_id, topic=place.topic, partition=place.partition, offset=offset, leader_epoch=-1
        )

    async def send_offsets(self, writer: Writer, group: str, place: Place, offset: int, sequence: int) -> None:
        """Offsets that commit with the transaction."""
        request = self.offsets_request(writer, group, place, offset, sequence)
        await self.ask_group(group, methods.SEND_OFFSETS, request)

    async def commit_offset(
        self, group: str, place: Place, offset: int, *, member: str = "", epoch: int = -1, sequence: int = 0
    ) -> None:
        """A plain commit. Raises what is refused."""
        request = co.CommitOffsetsRequest(
            member=co.GroupMember(group_id=group, member_id=member, member_epoch=epoch),
            commit_sequence=sequence,
            offsets=[self._entry(place, offset)],
        )
        reply = await self.ask_group(group, methods.COMMIT_OFFSETS, request)
        for failed in reply.errors:
            raise from_detail(failed.error)

    async def heartbeat(
        self,
        group: str,
        member: str,
        *topics: str,
        epoch: int = 0,
        received: int = 0,
        applied: int = 0,
        instance_id: str = "",
    ) -> co.GroupHeartbeatReply:
        """A heartbeat of a member; with topics it subscribes to these."""
        request = co.GroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            assignment_received=received,
            assignment_applied=applied,
        )
        if topics:
            request.subscription.CopyFrom(co.GroupSubscription(version=1, topics=topics, instance_id=instance_id))
        reply: co.GroupHeartbeatReply = await self.ask_group(group, methods.GROUP_HEARTBEAT, request)
        return reply

    @staticmethod
    def fetch_offsets_request(group: str, place: Place, stable: bool = False) -> co.FetchOffsetsRequest:
        """What has the group committed?"""
        return co.FetchOffsetsRequest(group_id=group, partitions=[place.to_proto()], require_stable=stable)

    async def committed_offset(self, group: str, place: Place, stable: bool = False) -> int | None:
        """A group's committed offset."""
        request = self.fetch_offsets_request(group, place, stable)
        reply = await self.ask_group(group, methods.FETCH_OFFSETS, request)
        return next((int(item.offset) for item in reply.offsets), None)
