"""Gives fetched records to the caller, a list or one at a time, and keeps the rest of a batch for the next time.

Rule 1: a position moves behind what was returned. What an interrupt or a defect of ours takes from the caller is fetched again.
Rule 2: what cannot be read is raised after the records before it were returned: by the next poll.
Rule 3: a batch that was handed out to another thread is taken back before anything that needs or moves its position.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Iterator
from typing import Final

from oncelog import errors
from oncelog.client.consume.expired_records import ExpiredRecords
from oncelog.client.consume.fetched_records import ConsumerRecord, Leftover, Records
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.handout import Handout
from oncelog.client.consume.offsets import offset_of
from oncelog.client.home.pace import Pace
from oncelog.config import ConsumerConfig
from oncelog.ports import WallClock
from oncelog.types import TopicPartition

_NO_LIMIT: Final = 1 << 40


def most_between_polls(config: ConsumerConfig) -> int:
    """Returns how many records may be returned one by one before the next poll, which a group counts as a read.

    Without a group time alone says when to poll.
    """
    return _NO_LIMIT if config.group_id is None else config.max_poll_records


class RecordReader:
    """See the module. One per consumer."""

    __slots__ = ("_config", "_fetcher", "_handout", "expired", "leftover")

    def __init__(self, fetcher: Fetcher, config: ConsumerConfig, clock: WallClock) -> None:
        self._fetcher = fetcher
        self._config = config
        self.expired = ExpiredRecords(clock, config.expired)
        """Leaves out what has expired, and counts it."""
        self._handout: Handout | None = None
        self.leftover: Leftover | None = None
        """The rest of an answer: records that were not returned yet."""

    # ------------------------------------------------------------ lists

    def gather(self, limit: int, records: Records) -> Records | None:
        """Moves to `records` what is there, at most `limit` of them. None: nothing. Raises by rule 2."""
        self.take_back()
        try:
            self._gather(limit, records)
        except BaseException:
            self._give_back(records)
            raise
        return records or None

    def _gather(self, limit: int, records: Records) -> None:
        room = self._config.max_buffered_bytes
        while len(records) < limit and (room > 0 or not records):
            part = self.leftover or self._next_part(may_raise=not records)
            if part is None:
                break
            room -= self._take(part, limit, records, max(room, 1))

    def _give_back(self, records: Records) -> None:
        """A `KeyboardInterrupt`, or a defect of ours, takes these from the caller: they are fetched again."""
        first = {TopicPartition(record.topic, record.partition): record.offset for record in reversed(records)}
        for partition, offset in first.items():
            self._fetcher.cursors[partition].seek(offset)
            self._fetcher.kick()

    def _next_part(self, may_raise: bool) -> Leftover | None:
        """The next answer, decoded and filtered."""
        fetched = self._fetcher.peek()
        if fetched is None or (fetched.error is not None and not may_raise):
            return None
        self._fetcher.pop(fetched)
        if fetched.error is not None:
            raise fetched.error
        return Leftover(fetched, self._config, self.expired)

    def _take(self, part: Leftover, limit: int, records: Records, most_bytes: int) -> int:
        """Moves records of an answer to the caller's; returns how many bytes were unpacked for that."""
        fetched, cursor = part.fetched, part.fetched.cursor
        self.leftover = None
        if not fetched.is_current or cursor.is_paused:
            if fetched.is_current:
                cursor.seek(cursor.position)
            return 0
        try:
            taken, unpacked = part.take(limit - len(records), most_bytes)
        except errors.OncelogError as error:
            if records:
                self.leftover = part  # raised by the next call: these records come first
                return most_bytes
            self._fetcher.again(cursor, error)  # nothing of it was returned
            raise
        except Exception:
            self.leftover = part  # a deserializer's own: it is asked again
            if records:
                return most_bytes
            raise
        except BaseException:  # what was taken of it so far is lost, and the position is before that
            cursor.seek(cursor.position)
            self._fetcher.kick()
            raise
        records.extend(taken)
        self._returned(part)
        if taken:
            records.offsets[cursor.partition] = offset_of(cursor, part.position)
        return unpacked

    def _returned(self, part: Leftover) -> None:
        """All that was taken of this answer is the caller's now."""
        part.fetched.cursor.returned(part.position, part.fetched.leader_epoch)
        self.leftover = None if part.is_empty else part

    def forget(self) -> None:
        """Drops the rest of an answer: other partitions are read now, or none."""
        self.leftover = None

    def forget_outdated(self) -> None:
        """Drops the rest of an answer whose partition is no longer read."""
        if self.leftover is not None and not self.leftover.fetched.is_current:
            self.leftover = None

    def fetch_again(self) -> None:
        """Drops the rest of an answer and fetches it again, since the caller reads on in another form."""
        self.take_back()
        leftover, self.leftover = self.leftover, None
        if leftover is not None and leftover.fetched.is_current:
            leftover.fetched.cursor.seek(leftover.fetched.cursor.position)
            self._fetcher.kick()

    # ------------------------------------------------------------ one after the other

    def one_by_one(self, pace: Pace) -> Iterator[ConsumerRecord]:
        """Yields what is left of the answer when it is asked, and moves the position: polls without their cost.

        Ends when the next poll is due, and where more care is needed: before the last record of a batch, after a seek, in a
        pause, when the rest of the answer was dropped.
        """
        part = self.leftover
        if part is None:
            return
        rows, cursor, generation = part.rows, part.fetched.cursor, part.fetched.generation
        now_s, due_s = pace.now_s, pace.due_s
        end = min(len(rows) - 1, part.at + pace.most_records - 1)
        while (at := part.at) < end and now_s() < due_s and self.leftover is part and part.rows is rows:
            if generation != cursor.generation or cursor.is_paused:
                return
            part.at = at + 1
            row = rows[at]
            cursor.position = row.offset + 1
            yield row

    # ------------------------------------------------------------ one after the other, in another thread

    def hand_out(self) -> Handout | None:
        """Gives what follows the record that was just returned to another thread; None when nothing is left. Rule 3."""
        most = most_between_polls(self._config) - 1
        self._handout = Handout(self.leftover, most, get_running_loop().time) if self.leftover and most else None
        return self._handout

    def take_back(self) -> None:
        """Ends what was handed out; the position moves behind what was taken of it. Idempotent."""
        handout, self._handout = self._handout, None
        if handout is None:
            return
        taken_to, part = handout.end(), handout.part
        if part is self.leftover and part.fetched.is_current:
            part.at = taken_to
            self._returned(part)
