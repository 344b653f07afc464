"""The names of waiting topics, where delayed records wait for their time (docs/internals/delays.md)."""

from __future__ import annotations

import hashlib
from typing import Final

from oncelog.core.names import WAITING_PREFIX

DELAY_MAX_MS: Final = 366 * 86_400_000
"""The longest delay."""


def is_waiting(topic: str) -> bool:
    """True for the name of a waiting topic."""
    return topic.startswith(WAITING_PREFIX)


def topic_of(waiting: str) -> str:
    """Returns the topic whose records wait in this one; any other topic's own name."""
    return waiting.removeprefix(WAITING_PREFIX)


def waiting_topic_id(topic_id: str) -> str:
    """Returns the id of the waiting topic of the topic with this id: a topic that is made again has another one."""
    return hashlib.sha256(f"{WAITING_PREFIX}{topic_id}".encode()).hexdigest()[:32]


def transactional_id(topic_id: str, partition: int) -> str:
    """Returns the transactional id of the scheduler of one partition of a waiting topic."""
    return f"{WAITING_PREFIX}{topic_id}.{partition}"
