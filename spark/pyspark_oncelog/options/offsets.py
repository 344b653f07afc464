"""Offsets as Spark keeps them in a checkpoint, and as users write them in options. Pure.

A position is `{"v":1,"topics":{"<topic>":{"id":"<topic id>","p":{"0":[offset, leader epoch]}}}}`. The topic id makes a
re-created topic visible, the leader epoch a truncation; Spark's Kafka source sees neither.

Spark keeps the end of the first micro-batch, and not its start: it asks for that again when the batch runs again, and the end
of the log, say, is another one by then. So the first end says with `"from":{"<topic>":...}` where its batch began. A start
that is its own `from` is where a query begins. Versions that know no `from` pass over it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypedDict

from oncelog.core.malformed import MALFORMED, JsonObject
from oncelog.errors import ConfigError

EARLIEST: Final = -2
LATEST: Final = -1
_LATEST_TIME_MS: Final = (1 << 63) - 1


class TopicForm(TypedDict):
    """Positions of one topic in a checkpoint: its id, and per partition [offset, leader epoch]."""

    id: str
    p: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The next offset to read of a partition, and the leader epoch it was learnt in (-1 = unknown)."""

    offset: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """Positions of one topic."""

    topic_id: str
    partitions: Mapping[int, PartitionPosition]


@dataclass(frozen=True, slots=True)
class Position:
    """Positions of all topics of a query. `origin`: where the query began, known at the end of its first micro-batch."""

    topics: Mapping[str, TopicPosition] = field(default_factory=dict)
    origin: Mapping[str, TopicPosition] | None = None

    @property
    def is_origin(self) -> bool:
        """True where a query begins."""
        return self.origin == self.topics

    def as_origin(self) -> Position:
        """The same, as the place where a query begins."""
        return Position(self.topics, self.topics)

    def to_json(self) -> JsonObject:
        """Returns the position as Spark stores it; JSON types only."""
        found: JsonObject = {"v": 1, "topics": _topics_to_json(self.topics)}
        return found if self.origin is None else {**found, "from": _topics_to_json(self.origin)}

    @staticmethod
    def from_json(data: JsonObject) -> Position:
        """Raises `ConfigError` for a checkpoint that another version or another source wrote."""
        try:
            if data["v"] != 1:
                raise ConfigError("the checkpoint was written by a newer version of this source", version=data["v"])
            return Position(_topics(data["topics"]), _topics(data["from"]) if "from" in data else None)
        except MALFORMED as error:
            raise ConfigError("the checkpoint was not written by the oncelog source") from error


def _topics_to_json(topics: Mapping[str, TopicPosition]) -> dict[str, TopicForm]:
    return {
        name: {
            "id": topic.topic_id,
            "p": {str(p): [at.offset, at.leader_epoch] for p, at in sorted(topic.partitions.items())},
        }
        for name, topic in sorted(topics.items())
    }


def _topics(data: Mapping[str, TopicForm]) -> dict[str, TopicPosition]:
    return {name: _topic(topic) for name, topic in data.items()}


def _topic(data: TopicForm) -> TopicPosition:
    partitions = {int(p): PartitionPosition(int(at[0]), int(at[1])) for p, at in data["p"].items()}
    return TopicPosition(str(data["id"]), partitions)


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Where a query begins, or where a batch read ends.

    `default` is earliest or latest. `explicit[topic][partition]` is an offset, -2 earliest or -1 latest.
    `times_ms[topic][partition]`, else `time_ms`, stands for the first record at or after that time; if there is none,
    it is an error unless `latest_if_none`.
    """

    default: str
    explicit: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    time_ms: int | None = None
    times_ms: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    latest_if_none: bool = False

    def without(self, topics: Collection[str]) -> StartingOffsets:
        """The same, with nothing said of these topics."""
        explicit = {name: at for name, at in self.explicit.items() if name not in topics}
        times_ms = {name: at for name, at in self.times_ms.items() if name not in topics}
        return dataclasses.replace(self, explicit=explicit, times_ms=times_ms)

    def names(self, special: int) -> bool:
        """True if any partition is to be read from (or to) this special offset."""
        if self.time_ms is not None or self.times_ms:
            return False
        default = EARLIEST if self.default == "earliest" else LATEST
        return (not self.explicit and default == special) or any(special in p.values() for p in self.explicit.values())

    def at(self, topic: str, partition: int) -> int:
        """An offset, or EARLIEST, or LATEST. A partition that the user did not name begins at the default."""
        named = self.explicit.get(topic, {}).get(partition)
        if named is not None:
            return named
        return EARLIEST if self.default == "earliest" else LATEST

    def time_of(self, topic: str, partition: int) -> int | None:
        """The time that stands for this partition's offset; None = none does."""
        return self.times_ms.get(topic, {}).get(partition, self.time_ms)


def parse_offsets_option(text: str, unnamed: str = "earliest") -> StartingOffsets:
    """`earliest`, `latest`, or JSON `{"topic":{"0":23,"1":-2}}`, as in Spark's Kafka source. Raises `ConfigError`.

    A partition that the JSON does not name is read from, or to, `unnamed`.
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return StartingOffsets(word)
    explicit = parse_partition_numbers(text, 'offsets are earliest, latest, or JSON such as {"topic":{"0":23,"1":-2}}')
    if any(offset < EARLIEST for ps in explicit.values() for offset in ps.values()):
        raise ConfigError("offsets are 0 and up, -2 for earliest or -1 for latest", given=text)
    return StartingOffsets(unnamed, explicit)


def parse_partition_numbers(text: str, expected: str) -> dict[str, dict[int, int]]:
    """A number per partition from JSON `{"topic":{"0":23}}`. Raises `ConfigError` that says what was expected."""
    try:
        parsed = json.loads(text)
        return {str(t): {int(p): _whole(n) for p, n in ps.items()} for t, ps in parsed.items()}
    except MALFORMED:
        raise ConfigError(expected, given=text) from None


def _whole(number: object) -> int:
    """Raises `ValueError` for what is no whole number: of a fraction, or of true, another offset would be made."""
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise ValueError(number)
    return int(number)


def parse_times(text: str, option: str) -> dict[str, dict[int, int]]:
    """A time per partition from JSON. Raises `ConfigError` also for -1 and -2: of a leader these ask for the ends of a log."""
    times_ms = parse_partition_numbers(text, f'{option} is JSON such as {{"topic":{{"0":1700000000000}}}}')
    if any(not 0 <= time_ms <= _LATEST_TIME_MS for at in times_ms.values() for time_ms in at.values()):
        raise ConfigError(f"times of option {option} are ms since 1970, from 0 to {_LATEST_TIME_MS}", given=text)
    return times_ms


def _listed(numbers: object) -> list[object]:
    """Raises `ValueError` for what is no list: of "12" its digits would be taken."""
    if not isinstance(numbers, list):
        raise ValueError(numbers)
    return numbers


def parse_assignment(text: str) -> dict[str, tuple[int, ...]]:
    """Partitions per topic from JSON `{"topic":[0,1]}`. Raises `ConfigError`."""
    try:
        parsed = json.loads(text)
        found = {str(t): tuple(sorted({_whole(p) for p in _listed(ps)})) for t, ps in parsed.items()}
    except MALFORMED:
        found = {}
    if not found or not all(found.values()) or any(p < 0 for ps in found.values() for p in ps):
        raise ConfigError('option assign is JSON such as {"topic":[0,1]}', given=text)
    return found
