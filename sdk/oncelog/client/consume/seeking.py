"""The methods of a consumer that ask for offsets, and move the position to one of them.

Rule: the caller moves positions of partitions that this consumer reads; offsets may be asked of any partition.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from oncelog import errors
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.offsets import as_partition, as_partitions
from oncelog.client.consume.positions import Positions
from oncelog.client.routing.offset_lookup import EARLIEST, LATEST, FoundOffset
from oncelog.core.consume.consumer import Cursor
from oncelog.core.work.bounds import whole_number
from oncelog.types import TopicPartition


class Seeking:
    """See the module. The base of `Consumer`."""

    _positions: Positions
    _fetcher: Fetcher

    @abstractmethod
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""

    @abstractmethod
    def _cursor(self, partition: tuple[str, int]) -> Cursor:
        """Returns the cursor of an assigned partition. Raises `IllegalStateError` for another one."""

    async def position(self, partition: tuple[str, int]) -> int:
        """The next offset to return. Looks it up first where none is known."""
        return await self._positions.of(self._cursor(partition))

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Goes on from this offset. Raises `OffsetOutOfRangeError` for a negative one."""
        if offset < 0:
            raise errors.OffsetOutOfRangeError("an offset is 0 or above", offset=offset)
        self._cursor(partition).sought(offset)
        self._fetcher.kick()

    async def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Goes to the first record that is kept; without arguments in all partitions."""
        await self._seek_all(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Goes to the end of what may be read now; without arguments in all partitions."""
        await self._seek_all(partitions, LATEST)

    async def _seek_all(self, partitions: tuple[tuple[str, int], ...], where: int) -> None:
        chosen = as_partitions(partitions) or self.assignment()
        for partition, offset in (await self._positions.list_offsets(dict.fromkeys(chosen, where))).items():
            self.seek(partition, offset.offset)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Per partition where the first record at or after this time (ms since 1970) is; None = there is none.

        Precise to the batch: the offset is that of the first record of its batch, so some before the time may come first.
        Raises `ConfigError` for a time below 0.
        """
        wanted = {as_partition(item): whole_number("time", time_ms) for item, time_ms in times.items()}
        found = await self._positions.list_offsets(wanted)
        return {partition: at if at.offset >= 0 else None for partition, at in found.items()}

    async def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """First offset that is kept."""
        found = await self._positions.list_offsets(dict.fromkeys(as_partitions(partitions), EARLIEST))
        return {partition: at.offset for partition, at in found.items()}

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """End of what may be read: last stable offset under read_committed, else high watermark."""
        found = await self._positions.list_offsets(dict.fromkeys(as_partitions(partitions), LATEST))
        return {partition: at.offset for partition, at in found.items()}
