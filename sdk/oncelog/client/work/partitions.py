"""Which partitions a worker asks for, and whom: the leaders of a topic, without those that just failed.

Rule 1: a partition that failed is not asked for until its pause has ended; the pause doubles with each failure. Metadata is
        looked at again meanwhile, when the failure says that it may be old.
Rule 2: a failure that lasts for `default_api_timeout_ms` is raised to a reader, once, and then tried again for as long.
Rule 3: partitions that are added to the topic are found by a refresh every `metadata_max_age_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog import errors
from oncelog.client.home.context import Context, now_ms
from oncelog.client.routing.metadata import Leader, Metadata
from oncelog.client.work.moment import Moment
from oncelog.core.causes import again, is_silence
from oncelog.types import PartitionId


class _Trouble:
    """A partition that failed."""

    __slots__ = ("failures", "retry_at_ms", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.failures = 0
        self.since_ms = since_ms
        self.retry_at_ms = since_ms


class Partitions:
    """See the module. One per worker."""

    def __init__(self, context: Context, metadata: Metadata, topic: str, topic_id: str, count: int) -> None:
        self._context = context
        self._metadata = metadata
        self._topic = topic
        self._topic_id = topic_id
        self._count = count
        self._troubles: dict[int, _Trouble] = {}
        self.tell: Callable[[errors.OncelogError], None] = lambda error: None
        """Called by rule 2."""
        self._refresh_at_ms = now_ms() + context.config.metadata_max_age_ms

    def id_of(self, partition: int) -> PartitionId:
        """The partition of this topic."""
        return PartitionId(self._topic_id, partition)

    def moment(self) -> Moment:
        """Returns the time and the leaders as they are now, for a step over many records."""
        return Moment(self._leader_of)

    def _leader_of(self, partition: int) -> Leader:
        return self._metadata.leader(self.id_of(partition))

    @property
    def numbers(self) -> range:
        """All partitions of the topic."""
        known = self._metadata.latest_topic(self._topic)
        if known is not None and known.topic_id == self._topic_id:
            self._count = max(self._count, known.partitions)
        return range(self._count)

    @property
    def is_created_again(self) -> bool:
        """The name is another topic's by now."""
        return self._metadata.newer_topic(self._topic, self._topic_id) is not None

    def by_leader(self) -> dict[str, list[int]]:
        """Address -> the partitions that may be asked for there now. One without a leader is noted as failed."""
        moment = self.moment()
        now = moment.now_ms
        if now >= self._refresh_at_ms:
            self._refresh_at_ms = now + self._context.config.metadata_max_age_ms
            self._metadata.request_refresh()
        found: dict[str, list[int]] = {}
        for number in self.numbers:
            trouble = self._troubles.get(number)
            if trouble is not None and trouble.retry_at_ms > now:
                continue
            address = moment.leader(number)
            if address:
                found.setdefault(address, []).append(number)
            else:
                self.failed((number,), errors.LeaderNotAvailableError(topic=self._topic, partition=number))
        return found

    def worked(self, partitions: Iterable[int]) -> None:
        """These were answered for."""
        for number in partitions:
            self._troubles.pop(number, None)

    def failed(self, partitions: Iterable[int], error: errors.OncelogError) -> None:
        """These were not. Rules 1 and 2."""
        now = now_ms()
        for number in partitions:
            trouble = self._troubles.setdefault(number, _Trouble(now))
            trouble.failures += 1
            trouble.retry_at_ms = now + self._context.delay_ms(trouble.failures, error.retry_after_ms)
            if now - trouble.since_ms >= self._context.config.default_api_timeout_ms:
                trouble.since_ms = now
                self.complain(number, error)
        self.note(error)

    def complain(self, partition: int, error: errors.OncelogError) -> None:
        """Tells what keeps this partition from being read."""
        told = again(error)
        told.context.setdefault("topic", self._topic)
        told.context.setdefault("partition", str(partition))
        self.tell(told)

    def note(self, error: errors.OncelogError) -> None:
        """Asks for metadata when the error says that what is known of the cluster may be old."""
        is_unknown = isinstance(error, errors.UnknownChannelError | errors.UnknownTopicError)
        if error.action is errors.ErrorAction.REFRESH or is_silence(error) or is_unknown:
            self._metadata.request_refresh()

    def look_again_at_ms(self) -> int:
        """When a partition that failed may be asked for again, or the topic may have changed."""
        now = now_ms()
        waits = (trouble.retry_at_ms for trouble in self._troubles.values() if trouble.retry_at_ms > now)
        return min([self._refresh_at_ms, *waits])
