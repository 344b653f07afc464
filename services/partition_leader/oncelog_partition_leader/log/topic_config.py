"""The options of a topic: names, ranges, defaults.

Rule: explicit values are stored as text under canonical names (underscores); Kafka's dotted names mean the same. Values
of a log are checked by `LogConfig` itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from oncelog.errors import ConfigError
from oncelog_partition_leader.log.log_config import FLUSH_FSYNC, LogConfig
from oncelog_runtime.metadata.cluster_view import ClusterView

_TEXT: Final = ("flush_mode", "cleanup_policy")
_NUMBERS: Final = (
    "segment_bytes",
    "segment_ms",
    "index_interval_bytes",
    "retention_ms",
    "retention_bytes",
    "max_message_bytes",
    "producer_id_expiration_ms",
    "delete_retention_ms",
    "min_compaction_lag_ms",
    "max_compaction_lag_ms",
)
_RATIO: Final = "min_cleanable_dirty_ratio"
_MIN_INSYNC: Final = "min_insync_replicas"
OPTIONS: Final = (*_TEXT, *_NUMBERS, _RATIO, _MIN_INSYNC)
LEGAL: Final = {
    "flush_mode": "replicated or fsync",
    "cleanup_policy": "delete, compact, or both: compact,delete",
    "segment_bytes": "256 to 2147483647",
    "segment_ms": "1 and up",
    "index_interval_bytes": "0 to 1073741824",
    "retention_ms": "-1 (without limit) and up",
    "retention_bytes": "-1 (without limit) and up",
    "max_message_bytes": "256 to 2147483647",
    "producer_id_expiration_ms": "1 and up",
    "delete_retention_ms": "0 to 2305843009213693952",
    "min_compaction_lag_ms": "0 and up",
    "max_compaction_lag_ms": "-1 (without limit), or 1 and up and not below min_compaction_lag_ms",
    "min_cleanable_dirty_ratio": "0 to 1",
    "min_insync_replicas": "1 and up; more than the topic's replicas means all of them",
}
"""The legal values of each option, in words for people."""
MEANING: Final = {
    "flush_mode": "`replicated`: a replica acknowledges what is in its memory; `fsync`: what is on its disk. Kafka's "
    "nearest is `flush.messages=1`.",
    "cleanup_policy": "What becomes of old records: `delete` obeys the retention, `compact` keeps the newest record of each "
    "key. A compacted topic takes no record without a key.",
    "segment_bytes": "A segment of the log with so many bytes is full, and the next one begins.",
    "segment_ms": "A batch that comes so long after the first of its segment begins a new one.",
    "index_interval_bytes": "How many bytes of the log lie between two entries of a segment's index.",
    "retention_ms": "Segments whose newest record is older are deleted; what an open transaction has written stays.",
    "retention_bytes": "The oldest segments of a partition are deleted while at least so much is left, "
    "never the one that is written to.",
    "max_message_bytes": "The largest batch that the topic takes.",
    "producer_id_expiration_ms": "Of a producer that wrote nothing for so long 24 bytes are kept: a late repeat is still "
    "recognised, but answered without its offset, and the producer may go on. One with an open transaction does not expire.",
    "delete_retention_ms": "In a compacted topic, how long a record with a null value (a deletion) stays after the first pass "
    "that met it, and the marker of a transaction after its data is gone. A reader has to come by within this time.",
    "min_compaction_lag_ms": "A record is not compacted earlier than this after it was written.",
    "max_compaction_lag_ms": "A record is compacted at the latest this long after it was written, whatever else is due.",
    "min_cleanable_dirty_ratio": "A log is compacted when at least this part of it was written since the last time.",
    "min_insync_replicas": "A record with acks=all needs so many replicas in the ISR; more than the topic has means all.",
}
"""The meaning of each option, in words for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The effective options of one topic."""

    min_insync_replicas: int = 1
    log: LogConfig = field(default_factory=LogConfig)

    @property
    def fsync(self) -> bool:
        """True when a replica acknowledges only records that are on its disk."""
        return self.log.flush_mode == FLUSH_FSYNC


def canonical(explicit: Mapping[str, str]) -> dict[str, str]:
    """Checks the options of a user's topic; returns them under canonical names, sorted.

    Raises `ConfigError` for an unknown name or an illegal value.
    """
    checked: dict[str, str] = {}
    for given, value in explicit.items():
        name = option_name(given)
        if name in checked:
            raise ConfigError(f"option {name} is given twice", name=name)
        checked[name] = value
    effective(checked, TopicConfig())
    return dict(sorted(checked.items()))


def option_name(given: str) -> str:
    """Returns the canonical name of an option. Raises `ConfigError`, which names the nearest option and all others."""
    name = given.replace(".", "_")
    if name in OPTIONS:
        return name
    near = difflib.get_close_matches(name, OPTIONS, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(
        f"no topic option {given[:64]!a}; {hint}Options: {', '.join(sorted(OPTIONS))}", name=ascii(given[:64])
    )


def described(explicit: Mapping[str, str], defaults: TopicConfig) -> list[tuple[str, str, bool, str]]:
    """Returns (name, value in force, whether it is explicit, default) of every option, by name."""
    return [
        (name, explicit.get(name, default), name in explicit, default)
        for name in sorted(OPTIONS)
        for default in (str(getattr(defaults if name == _MIN_INSYNC else defaults.log, name)),)
    ]


def effective(explicit: Mapping[str, str], defaults: TopicConfig) -> TopicConfig:
    """Applies explicit options over the defaults; a name that this version does not know is ignored (a newer peer wrote it).

    Raises `ConfigError` for an illegal value.
    """
    values: dict[str, str | int | float] = {name: explicit[name] for name in _TEXT if name in explicit}
    values.update({name: _number(name, explicit[name]) for name in _NUMBERS if name in explicit})
    if _RATIO in explicit:
        values[_RATIO] = _ratio(explicit[_RATIO])
    minimum = defaults.min_insync_replicas
    if _MIN_INSYNC in explicit:
        minimum = _number(_MIN_INSYNC, explicit[_MIN_INSYNC])
        if minimum < 1:
            raise ConfigError(f"{_MIN_INSYNC} is {LEGAL[_MIN_INSYNC]}", name=_MIN_INSYNC, value=minimum)
    return TopicConfig(min_insync_replicas=minimum, log=replace(defaults.log, **values))  # type: ignore[arg-type]


def altered(explicit: Mapping[str, str], changes: Mapping[str, str], unset: Iterable[str]) -> dict[str, str]:
    """Returns the explicit options after a change, checked as a new topic's are. Raises `ConfigError`.

    A name that this version does not know stays as it is: a newer peer wrote it.
    """
    gone = [option_name(given) for given in unset]
    wanted = canonical(changes)
    both = sorted(set(gone) & set(wanted))
    if both:
        raise ConfigError(f"option {both[0]} is set and unset at once", name=both[0])
    after = {**{name: value for name, value in explicit.items() if name not in gone}, **wanted}
    effective(after, TopicConfig())
    return dict(sorted(after.items()))


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{name} is a whole number: {LEGAL[name]}", name=name, value=ascii(value[:64])) from None


def _ratio(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"{_RATIO} is a number: {LEGAL[_RATIO]}", name=_RATIO, value=ascii(value[:64])) from None


def min_insync_of(view: ClusterView, topic: str, defaults: TopicConfig) -> int:
    """Returns `min_insync_replicas` of a topic; the default while the topic is unknown or its options are not legal."""
    entry = view.topics.get(topic)
    try:
        return effective(entry.value.config if entry is not None else {}, defaults).min_insync_replicas
    except ConfigError:
        return defaults.min_insync_replicas
