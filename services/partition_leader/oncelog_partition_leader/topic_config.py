"""The options of a topic: names, ranges, defaults.

Rule: explicit values are stored as text under canonical names (underscores); Kafka's dotted names mean the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from oncelog.errors import ConfigError

_CHOICES = {
    "flush_mode": ("replicated", "fsync"),
    "cleanup_policy": ("delete", "compact", "compact,delete"),
    "message_timestamp_type": ("CreateTime", "LogAppendTime"),
}
_MINIMUM = {
    "min_insync_replicas": 1,
    "retention_ms": -1,
    "retention_bytes": -1,
    "segment_bytes": 1 << 12,
    "segment_ms": 1,
    "max_message_bytes": 1 << 10,
    "index_interval_bytes": 1,
    "delete_retention_ms": 0,
    "min_compaction_lag_ms": 0,
    "producer_id_expiration_ms": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Effective options of one topic. -1 = without bound."""

    min_insync_replicas: int = 1
    flush_mode: str = "replicated"
    cleanup_policy: str = "delete"
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    max_message_bytes: int = 16 << 20
    message_timestamp_type: str = "CreateTime"
    index_interval_bytes: int = 4096
    delete_retention_ms: int = 24 * 3_600_000
    min_compaction_lag_ms: int = 0
    producer_id_expiration_ms: int = 24 * 3_600_000

    @property
    def fsync(self) -> bool:
        """A replica acknowledges only what is on its disk."""
        return self.flush_mode == "fsync"


_NAMES = tuple(field.name for field in fields(TopicConfig))


def canonical(explicit: Mapping[str, str]) -> dict[str, str]:
    """Checked options under canonical names, sorted. Raises `ConfigError` for an unknown name or an illegal value."""
    checked: dict[str, str] = {}
    for given, value in explicit.items():
        name = given.replace(".", "_")
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"no topic option {ascii(given[:64])}{hint}", name=ascii(given[:64]))
        if name in checked:
            raise ConfigError(f"option {name} is given twice", name=name)
        _check(name, value)
        checked[name] = value
    return dict(sorted(checked.items()))


def _check(name: str, value: str) -> None:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ConfigError(f"{name} is one of {', '.join(_CHOICES[name])}", name=name, value=ascii(value[:64]))
        return
    try:
        number = int(value)
    except ValueError:
        raise ConfigError(f"{name} is a whole number", name=name, value=ascii(value[:64])) from None
    if not _MINIMUM[name] <= number < 1 << 62:
        raise ConfigError(f"{name} is at least {_MINIMUM[name]}", name=name, value=number)


def effective(explicit: Mapping[str, str], defaults: TopicConfig) -> TopicConfig:
    """Defaults under explicit options; what this version does not know is ignored (a newer peer wrote it)."""
    values: dict[str, str | int] = {}
    for name, value in explicit.items():
        if name in _CHOICES:
            values[name] = value
        elif name in _NAMES:
            values[name] = int(value)
    return replace(defaults, **values)  # type: ignore[arg-type]
