"""The commands and answers about channels in a group shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from oncelog_coordinator.core.channels.channel_records import UNKNOWN, ChannelPartitionId, PendingAcks, Retry
from oncelog_coordinator.core.channels.offset_ranges import OffsetRange
from oncelog_coordinator.core.decision import Command, Note
from oncelog_coordinator.core.offsets.gone_topics import LookedAtTopics
from oncelog_coordinator.core.offsets.offset_commands import ENROLLED_BEFORE, Enrolled
from oncelog_coordinator.core.transactions.commands import TxnName


class Leader(NamedTuple):
    """The leader of a partition in this epoch, and the channel of this topic that it asks about."""

    id: ChannelPartitionId
    topic_id: str
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class OpenChannelPartition(Command["ChannelView"]):
    """Reads the state, and keeps leaders of older epochs out from then on. `blocks`: first offsets; empty = all."""

    leader: Leader
    blocks: tuple[int, ...] = ()


class BlockView(NamedTuple):
    """A block with something in it: its settled offsets as a bit map, and its retried records by offset."""

    first_offset: int
    settled: int
    retried: tuple[Retry, ...]


@dataclass(frozen=True, slots=True)
class ChannelView:
    """Answers OpenChannelPartition. `known` False: nothing was ever written."""

    known: bool
    settled_before: int
    write_no: int
    seeks: int
    blocks: tuple[BlockView, ...] = ()
    pending: tuple[PendingAcks, ...] = ()
    written_epoch: int = UNKNOWN
    """See `ChannelHead`."""


@dataclass(frozen=True, slots=True)
class WriteChannelState(Command[None]):
    """Adds settled and retried records. `seek`: forget everything, and go on at `settled_before`.

    `forget_from`: nothing else is written; what is remembered of this offset, and of all behind it, is forgotten.
    """

    leader: Leader
    write_no: int
    settled_before: int
    settled: tuple[OffsetRange, ...] = ()
    retried: tuple[Retry, ...] = ()
    seek: bool = False
    forget_from: int | None = None


@dataclass(frozen=True, slots=True)
class SendChannelAcks(Command[None]):
    """Acknowledgements that count when a transaction commits, in which the channel's group was durably enrolled before."""

    name: TxnName
    txn_shard: int
    leader: Leader
    seeks: int
    acknowledged: tuple[OffsetRange, ...]
    enrolled: Enrolled = ENROLLED_BEFORE


@dataclass(frozen=True, slots=True)
class SeeChannels(Command[None]):
    """Tells the shard the ids of all channels that there are."""

    channel_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ChannelsSeen(Note):
    """Note: the channels of the cluster."""

    channel_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class LookedAtChannels(Note):
    """Note: it was decided which channels are gone; channels take the place of topics here."""

    looked: LookedAtTopics
