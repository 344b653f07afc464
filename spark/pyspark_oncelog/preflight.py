"""Checks on the driver before Spark computes anything, with errors that say what to do.

Spark itself says "crashed" or "not found" when a worker's Python lacks a package, and a missing topic would show only
after the data was computed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Final

from oncelog.errors import ConfigError, UnknownTopicError
from pyspark_oncelog.options.read_write_options import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from oncelog.sync import Client

NEEDED: Final = ("pyarrow", "numpy", "google.protobuf", "grpc", "crc32c")
_known_topics: set[tuple[int, str, str]] = set()


def require_python(needed: Iterable[str] = NEEDED) -> None:
    """Raises `ConfigError` that names PYSPARK_PYTHON when this Python lacks a package that writing or reading needs."""
    missing = [name for name in needed if not _is_there(name)]
    if missing:
        raise ConfigError(wrong_python(sys.executable, missing))


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def wrong_python(executable: str, missing: Iterable[str]) -> str:
    """Returns the advice for a Spark that runs on the wrong Python."""
    return (
        f"Spark's Python {executable} lacks {', '.join(missing)}: set PYSPARK_PYTHON, on the driver and on every "
        'executor, to a Python that has them (pip install "oncelog[spark]")'
    )


def require_topic(options: SinkOptions) -> None:
    """The topic exists, or is created when option createTopicPartitions says so; asked once per process.

    Without option topic the rows decide, so nothing can be known here. Raises `UnknownTopicError` with the command that
    creates the topic, or `ClusterUnreachableError`.
    """
    if options.topic:
        from pyspark_oncelog.worker.worker_client import client_for, forgetting_wrong_cluster

        with forgetting_wrong_cluster():
            ensure_topic(lambda: client_for(options.connection), options, options.topic)


def ensure_topic(client: Callable[[], Client], options: SinkOptions, topic: str) -> None:
    """Like `require_topic`, for a topic that a row names."""
    key = _key(options, topic)
    if key in _known_topics:
        return
    try:
        client().admin.describe_topic(topic)
    except UnknownTopicError:
        if not options.create_topic_partitions:
            raise unknown_topic_to_write(options, topic) from None
        client().admin.create_topic(topic, partitions=options.create_topic_partitions, if_not_exists=True)
    _known_topics.add(key)


def forget_topic(options: SinkOptions, topic: str) -> None:
    """Forgets that the topic exists, since it was deleted: the next check asks the cluster."""
    _known_topics.discard(_key(options, topic))


def _key(options: SinkOptions, topic: str) -> tuple[int, str, str]:
    return os.getpid(), options.connection.bootstrap_servers, topic


def unknown_topic_to_write(options: SinkOptions, topic: str) -> UnknownTopicError:
    """The error with the command that creates the topic, and the option that does."""
    return unknown_topic(topic, options.connection.bootstrap_servers, ", or set option createTopicPartitions")


def no_longer_found(topics: Sequence[str]) -> UnknownTopicError:
    """The error of a stream whose pattern matches a topic that it has read and that is not listed any more."""
    return UnknownTopicError(
        f"option subscribePattern no longer finds {', '.join(topics)}, which this query has read: deleted, or no longer "
        "shown to this user. If it is there again, start the query again; to go on with the other topics, set option "
        "failOnDataLoss=false",
        topic=topics[0],
    )


def unknown_topic(topic: str, bootstrap_servers: str, otherwise: str = "") -> UnknownTopicError:
    """The error with the command that creates the topic, and what else would help."""
    return UnknownTopicError.named(topic, f"--partitions 6 --bootstrap-servers {bootstrap_servers}", otherwise)
