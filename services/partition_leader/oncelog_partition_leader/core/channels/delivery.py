"""One channel on one partition, as long as one leadership lasts: which record goes to which worker, and what became of it.

SKELETON: signatures and types are final; bodies follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncelog_partition_leader.core.channels.offset_ranges import OffsetRange
from oncelog_partition_leader.core.channels.settlement import Claim, Dead, Refused, Settlement, Taken
from oncelog_partition_leader.core.channels.stored_state import Stored, StoredPending, Write
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_runtime.metadata.channel_values import ChannelOptions

__all__ = ["Counts", "Delivery", "PendingRecord"]


class Counts(NamedTuple):
    """What there is, and what was done in this leadership."""

    depth: int
    """Records that are not settled and were looked at; add the offsets from `next_offset` to the end for an upper bound."""
    in_flight: int
    in_transaction: int
    waiting: int
    """Given back, for a later time."""
    delivered: int
    redelivered: int
    acknowledged: int
    dead: int
    expired: int
    """Deleted by retention before they were settled; of those that were never looked at, the offsets."""


class PendingRecord(NamedTuple):
    """A record that was delivered and is not settled."""

    offset: int
    worker_id: str
    """Empty: it waits for its next delivery."""
    idle_ms: int
    """Since it was last delivered; 0 when this leadership never delivered it."""
    deliveries: int
    due_ms: int
    """Until it comes again, if nothing happens."""
    in_transaction: bool


class Delivery:
    """One channel on one partition in one leadership. `now_ms` is monotonic, in milliseconds, everywhere."""

    def __init__(self, options: ChannelOptions, stored: Stored, now_ms: int) -> None: ...

    # ------------------------------------------------------------ what the log has

    @property
    def next_offset(self) -> int:
        """The offset from which `supply` goes on."""
        raise NotImplementedError

    @property
    def settled_before(self) -> int:
        """Everything below is settled, and that is durable (or was never anybody's to settle)."""
        raise NotImplementedError

    def wants(self, now_ms: int) -> int:
        """Returns how many more offsets it wants to know of; 0 = it has enough, its window is full, or it is paused."""
        raise NotImplementedError

    def supply(
        self,
        first_offset: int,
        next_offset: int,
        visible: Iterable[OffsetRange],
        key_hashes: Sequence[int] | None = None,
    ) -> None:
        """Tells it what the log has in [first_offset, next_offset): the records of `visible`, in ascending order.

        What is below `self.next_offset` is known already, and what is beyond the window is left for a later call: see
        `self.next_offset` afterwards. A call that begins above `self.next_offset` (a seek came between) does nothing.
        `key_hashes`: of a channel with `order_by_key` only, one for each visible record, 0 to 2^64 - 1; `NO_KEY` (of
        `key_order.py`) = it has no key.
        """
        raise NotImplementedError

    def log_begins_at(self, offset: int) -> None:
        """Settles all records below: retention has deleted them."""
        raise NotImplementedError

    # ------------------------------------------------------------ workers

    def available(self, now_ms: int) -> int:
        """Returns how many records could be delivered now."""
        raise NotImplementedError

    def take(self, worker_id: str, most: int, now_ms: int) -> list[Taken]:
        """Gives the worker up to `most` records. They are the worker's until `now_ms + options.ack_wait_ms`."""
        raise NotImplementedError

    def settle(self, worker_id: str, settlement: Settlement, now_ms: int) -> list[Refused]:
        """Does what the worker says about its records, and returns those that it does not hold.

        All that was settled so far is durable when write `written_with` is confirmed. A REJECT whose letter is still to be
        written is not waited for: until then a fail-over brings the record again.
        Raises `InvalidRequestError` and changes nothing for a settlement that is out of range.
        """
        raise NotImplementedError

    def claim(self, worker_id: str, claim: Claim, now_ms: int) -> list[Taken]:
        """Gives the worker records of others: each is a new delivery."""
        raise NotImplementedError

    def worker_left(self, worker_id: str, now_ms: int, *, released: bool = False) -> None:
        """Gives back what the worker holds. `released`: it said so itself, and these deliveries do not count."""
        raise NotImplementedError

    def in_flight_of(self, worker_id: str) -> int:
        """Returns how many records the worker holds (those in a transaction not counted)."""
        raise NotImplementedError

    # ------------------------------------------------------------ transactions

    def enter_transaction(
        self, worker_id: str, name: TxnName, items: Sequence[Settlement], now_ms: int
    ) -> list[OffsetRange]:
        """Makes all these records IN_TXN, and returns their offsets for the coordinator, merged and in ascending order.

        All or nothing: raises `NotOwnerError` when the worker does not hold one of them in its delivery. A record that
        the same worker has put into the same transaction is fine (a repeated call).
        """
        raise NotImplementedError

    def left_transaction(self, name: TxnName, ranges: Iterable[OffsetRange], now_ms: int) -> None:
        """Gives records back to their owner: the coordinator has refused them for certain. An owner that left has none."""
        raise NotImplementedError

    def ended_transaction(self, name: TxnName, settled: Iterable[OffsetRange], now_ms: int) -> None:
        """Settles those of the transaction's records that are in `settled`; the others come again."""
        raise NotImplementedError

    def open_transactions(self) -> list[StoredPending]:
        """Returns the transactions whose outcome is not known, with their records."""
        raise NotImplementedError

    # ------------------------------------------------------------ time

    def tick(self, now_ms: int) -> None:
        """Does what is due: deadlines that have passed, pauses that are over."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """Returns when `tick` has to be called next, or None. It may be early, never late."""
        raise NotImplementedError

    # ------------------------------------------------------------ writing

    def next_write(self, now_ms: int) -> Write | None:
        """Returns what has to be written, or None: nothing, or the last one is not `written` yet."""
        raise NotImplementedError

    def written(self, write_no: int) -> None:
        """Notes that the coordinator has confirmed the outstanding write; another number is ignored."""
        raise NotImplementedError

    @property
    def written_with(self) -> int:
        """The number of the write with which everything that was settled or given back so far is durable."""
        raise NotImplementedError

    @property
    def confirmed_write_no(self) -> int:
        """The number of the last confirmed write: what has a `written_with` up to it is durable."""
        raise NotImplementedError

    @property
    def seeks(self) -> int:
        """How often the channel was sought on this partition, as `SendChannelAcks` has to tell it."""
        raise NotImplementedError

    # ------------------------------------------------------------ dead letters

    def to_bury(self) -> list[Dead]:
        """Returns records whose letters have to be written, each once: `buried` or `bury_later` is the answer to each."""
        raise NotImplementedError

    def buried(self, offset: int) -> None:
        """Notes that the letter is written."""
        raise NotImplementedError

    def bury_later(self, offset: int, pause_ms: int, now_ms: int) -> None:
        """Notes that the letter could not be written; `to_bury` returns the record again after the pause."""
        raise NotImplementedError

    # ------------------------------------------------------------ operators

    def seek(self, offset: int) -> None:
        """Goes on at another offset. Durable, like a settlement, when write `written_with` is confirmed."""
        raise NotImplementedError

    def pause(self, paused: bool) -> None:
        """Stops delivering, or goes on. What was delivered may be settled all the same."""
        raise NotImplementedError

    def configure(self, options: ChannelOptions) -> None:
        """Takes other options. `order_by_key` stays as it is."""
        raise NotImplementedError

    def describe(self, now_ms: int) -> Counts:
        """Returns what there is, and what was done."""
        raise NotImplementedError

    def pending(
        self, now_ms: int, most: int, worker_id: str = "", min_idle_ms: int = 0, from_offset: int = 0
    ) -> list[PendingRecord]:
        """Returns records that were delivered and are not settled, by offset. `worker_id`: only those that it holds."""
        raise NotImplementedError

    def check(self) -> None:
        """Asserts every invariant; for tests."""
        raise NotImplementedError
