"""Gives fetched records to the caller, a list or one at a time, and keeps the rest of a batch for the next time.

Rule 1: a position moves behind what was returned. What an interrupt or a defect of ours takes from the caller is fetched again.
Rule 2: what cannot be read is raised after the records before it were returned: by the next poll.
Rule 3: a batch that was handed out to another thread is taken back before anything that needs or moves its position.
"""

from __future__ import annotations

from oncelog import errors
from oncelog.client.consume.expired_records import ExpiredRecords
from oncelog.client.consume.fetched_records import Leftover, Records
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.handout import Handout
from oncelog.client.consume.offsets import offset_of
from oncelog.config import ConsumerConfig
from oncelog.ports import WallClock
from oncelog.types import TopicPartition


class RecordReader:
    """See the module. One per consumer."""

    __slots__ = ("_clock", "_config", "_fetcher", "_handout", "expired", "leftover")

    def __init__(self, fetcher: Fetcher, config: ConsumerConfig, clock: WallClock) -> None:
        self._fetcher = fetcher
        self._config = config
        self._clock = clock
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

    # ------------------------------------------------------------ one after the other, in another thread

    def hand_out(self) -> Handout | None:
        """Gives what follows the record that was just returned to another thread; None when nothing is left. Rule 3."""
        most = self._config.max_poll_records - 1
        self._handout = Handout(self.leftover, most, self._clock) if self.leftover is not None and most else None
        return self._handout

    def take_back(self) -> None:
        """Ends what was handed out; the position moves behind what was taken of it. Idempotent."""
        handout, self._handout = self._handout, None
        if handout is None:
            return
        taken_to, part = handout.end(), handout.part
        if part is self.leftover and part.fetched.is_current:
            part.taken_to(taken_to)
            self._returned(part)
