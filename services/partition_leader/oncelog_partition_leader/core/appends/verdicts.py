"""Decides about one command: its batch is appended, it is answered without one, or the coordinator is asked first.

Rule 1: a verdict only reads. A refusal is an exception of `oncelog.errors`, and leaves no trace.
Rule 2: a command that appends needs enough replicas in sync, if it asks for `acks=all`; one that repeats what is in the log
        does not: it is answered as its first copy was, or is.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import NamedTuple

from oncelog.core.batch.control import seal_fence, seal_marker
from oncelog.core.batch.header import BatchHeader, read_header
from oncelog.errors import NotEnoughReplicasError
from oncelog.types import Buffer
from oncelog_partition_leader.core.appends.commands import (
    ACKS_ALL,
    AppendBatch,
    AppendMarkerCommand,
    Command,
    SettleCommand,
    Settled,
    Written,
)
from oncelog_partition_leader.core.producers.decisions import APPEND, AppendMarker, Duplicate, NeedsEnrolment, Origin
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet


class Facts(NamedTuple):
    """The leader's knowledge while it decides about the commands of one step."""

    producers: ProducerStates
    replicas: ReplicaSet
    verified: Container[TxnSession]
    """The enrolments that the coordinator has just confirmed."""
    min_insync_replicas: int
    log_start_offset: int
    tag: int
    now_ms: int


class ToAppend(NamedTuple):
    """Append this batch. `answer` None: the answer is the batch's own place in the log."""

    header: BatchHeader
    data: Buffer
    answer: Written | None = None
    settled: Settled | None = None


class AnswerAt(NamedTuple):
    """Append nothing; give the answer when everything below `end` is committed."""

    end: int
    answer: Written
    settled: Settled | None = None


Verdict = ToAppend | AnswerAt | NeedsEnrolment


def verdict_on(command: Command, facts: Facts) -> Verdict:
    """Decides about a command. Raises the refusal."""
    if isinstance(command, AppendBatch):
        return _on_batch(command, facts)
    if isinstance(command, AppendMarkerCommand):
        return _on_marker(command, facts)
    assert isinstance(command, SettleCommand)
    return _on_settle(command, facts)


def _on_batch(command: AppendBatch, facts: Facts) -> Verdict:
    decision = facts.producers.decide(command.header, Origin.CLIENT, facts.verified)
    if isinstance(decision, Duplicate):
        answer = Written(decision.base_offset, decision.append_timestamp_ms, facts.log_start_offset, True)
        return AnswerAt(decision.stable_after, answer)
    _require_in_sync(command, facts)
    if isinstance(decision, NeedsEnrolment):
        return decision
    assert decision is APPEND
    return ToAppend(command.header, command.data)


def _on_marker(command: AppendMarkerCommand, facts: Facts) -> Verdict:
    decision = facts.producers.decide_marker(command.name, command.txn_shard, command.marker)
    if not isinstance(decision, AppendMarker):
        return AnswerAt(decision.offset + 1, Written(decision.offset, -1, facts.log_start_offset, True))
    _require_in_sync(command, facts)
    data = seal_marker(
        replace(command.marker, lost=decision.lost),
        txn_producer_id=command.name.txn_producer_id,
        txn_no=command.name.txn_no,
        txn_shard=command.txn_shard,
        timestamp_ms=facts.now_ms,
        tag=facts.tag,
    )
    return ToAppend(read_header(data), data)


def _on_settle(command: SettleCommand, facts: Facts) -> Verdict:
    """Decides whether a batch in doubt is written; if it is not, and the caller wants that for good, a fence is appended."""
    known = facts.producers.producer(command.producer_id)
    found = facts.producers.written(
        command.producer_id, command.producer_epoch, command.base_sequence, command.last_sequence
    )
    epoch = known.producer_epoch if known is not None else -1
    last = known.window.last_sequence if known is not None else -1
    answer = Written(found.base_offset, -1, facts.log_start_offset, found.written)
    if found.written or not command.settle:
        end = found.stable_after if found.written else facts.replicas.high_watermark
        return AnswerAt(end, answer, Settled(known is not None, found.written, found.base_offset, epoch, last))
    _require_in_sync(command, facts)
    fence_epoch = facts.producers.fence_epoch(command.producer_id, command.producer_epoch)
    data = seal_fence(
        producer_id=command.producer_id,
        producer_epoch=fence_epoch,
        timestamp_ms=facts.now_ms,
        tag=facts.tag,
    )
    settled = Settled(known is not None, False, -1, fence_epoch, last if fence_epoch == epoch else -1)
    return ToAppend(read_header(data), data, answer, settled)


def _require_in_sync(command: Command, facts: Facts) -> None:
    if command.acks == ACKS_ALL and not facts.replicas.enough_in_sync:
        raise NotEnoughReplicasError(isr=len(facts.replicas.committed), min_insync_replicas=facts.min_insync_replicas)
