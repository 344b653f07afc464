"""Which names are legal. One place, used by client and servers, so that no name can act as a path or a key prefix."""

from __future__ import annotations

import re
from typing import Final

from oncelog.errors import InvalidGroupIdError, InvalidRequestError, InvalidTopicError

TOPIC_CHARACTERS_MAX: Final = 249
WAITING_PREFIX: Final = "__delayed."
"""Begins the name of a topic in which delayed records wait, and the transactional ids of those who move them."""
TOPIC_NAMES: Final = "topic names are 1-249 characters of [a-zA-Z0-9._-]"
_LEGAL: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{TOPIC_CHARACTERS_MAX}}}\Z", re.ASCII)
CHANNEL_CHARACTERS_MAX: Final = 64
CHANNEL_NAMES: Final = "channel names and worker ids are 1-64 characters of [a-zA-Z0-9._-]"
_LEGAL_CHANNEL: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{CHANNEL_CHARACTERS_MAX}}}\Z", re.ASCII)
_ID_BYTES_MAX: Final = 1024
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}\Z", re.ASCII)


def check_topic_name(name: str) -> str:
    """Returns the name; raises `InvalidTopicError` unless it is text, 1-249 of `[a-zA-Z0-9._-]` and neither `.` nor `..`."""
    if not is_topic_name(name):
        raise InvalidTopicError(TOPIC_NAMES, topic=ascii(name)[:66])
    return name


def is_topic_name(name: object) -> bool:
    """True for a name that `check_topic_name` takes."""
    return isinstance(name, str) and _LEGAL.match(name) is not None and name not in (".", "..")


def _printable(name: str) -> bool:
    return bool(name) and name.isprintable() and len(name.encode()) <= _ID_BYTES_MAX


def check_transactional_id(name: str) -> str:
    """Returns the id; raises `InvalidRequestError` unless it is printable and 1-1024 bytes."""
    if not _printable(name):
        raise InvalidRequestError("a transactional id is 1-1024 bytes of printable text", given=ascii(name[:64]))
    return name


def check_group_id(name: str) -> str:
    """Returns the id; raises `InvalidGroupIdError` unless it is printable and 1-1024 bytes."""
    if not _printable(name):
        raise InvalidGroupIdError("a group id is 1-1024 bytes of printable text", given=ascii(name[:64]))
    return name


def is_partition_id(topic_id: str, partition: int) -> bool:
    """True for a topic id of 32 hex digits and a partition of 0 or above."""
    return partition >= 0 and _TOPIC_ID.match(topic_id) is not None


def check_channel_name(name: str) -> str:
    """Returns a channel name or worker id. Raises `InvalidRequestError` unless it is 1-64 of `[a-zA-Z0-9._-]`."""
    if _LEGAL_CHANNEL.match(name) is None or name in (".", ".."):
        raise InvalidRequestError(CHANNEL_NAMES, given=ascii(name)[:66])
    return name


def channel_group_id(channel_id: str) -> str:
    """Returns the group id under which a coordinator keeps a channel's state, and enrols it in transactions."""
    return f"__channel.{channel_id}"


def waiting_topic(topic: str) -> str:
    """Returns the name of the topic in which delayed records of `topic` wait. Raises `InvalidTopicError` when there is none."""
    name = WAITING_PREFIX + check_topic_name(topic)
    if topic.startswith("__"):  # what waited for a topic of the cluster would be written there by a broker
        raise InvalidTopicError(
            "names that begin with __ are the cluster's own: nothing can wait for them", topic=topic
        )
    if len(name) > TOPIC_CHARACTERS_MAX:
        raise InvalidTopicError("records of this topic cannot be delayed: its name is too long", topic=topic)
    return name
