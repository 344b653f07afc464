"""Translates the options of Spark's Kafka source and sink, and of the Kafka clients behind them. Pure.

Rule 1: what means the same is taken under Kafka's name, too; everything else is refused, and nothing is ignored.
Rule 2: a refusal says what to write instead, or that the option can go.
Rule 3: a client's property means the same with `kafka.` in front of it and without.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark_oncelog.options import option_table

_PREFIX: Final = "kafka."
_CLOSE: Final = 0.9
"""How alike a mistyped name is to the right one; below that a suggestion would be a guess."""

_NO_GROUP: Final = (
    "a read belongs to no group, so leave it out; option commitGroup tells a group what was read, for lag tools"
)
_CALLS: Final = (
    "every call is tried again until requestTimeoutMs has passed, so write option requestTimeoutMs, or nothing"
)
_IN_ORDER: Final = "what is sent again is there once and in its order, so leave it out"
_FETCH: Final = (
    "a task reads its offsets as fast as they come, so leave it out; option maxRecordsPerPartition makes tasks smaller"
)
_CAST: Final = "keys and values are bytes, so leave it out and cast columns in the query"
_CA: Final = "write option sslCafile, which names a PEM file, and needs no password"
_KEY: Final = "write options sslCertfile and sslKeyfile, which name PEM files without a password"
_WHO: Final = "write options username and passwordFile (or password), or tokenFile (or token), and securityProtocol=SSL"
_PLUG_IN: Final = "no class of yours is called in the client, so leave it out; option otlpEndpoint traces writes"
_OF_CLIENT: Final = "it is for Kafka's clients, and there is none behind oncelog, so leave it out"

_CONNECTOR: Final[tuple[tuple[str, str], ...]] = (
    ("kafkaConsumer.pollTimeoutMs", _CALLS),
    ("fetchOffset.numRetries", _CALLS),
    ("fetchOffset.retryIntervalMs", _CALLS),
    ("groupIdPrefix", _NO_GROUP),
)
"""Options of Spark's own; `groupIdPrefix` and the like never had a `kafka.` in front."""

_CLIENT: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("acks",), "a write waits for all in-sync replicas, so leave it out"),
    (("retries", "retry.backoff.ms", "retry.backoff.max.ms", "enable.idempotence"), _IN_ORDER),
    (("max.in.flight.requests.per.connection",), _IN_ORDER),
    (("linger.ms",), "a task gathers what Spark hands it without waiting, so leave it out; see option batchBytes"),
    (("batch.size",), "write option batchBytes, whose default is 3 MiB, or nothing"),
    (("buffer.memory",), "a task waits when the cluster is slower than Spark, so leave it out"),
    (("request.timeout.ms", "max.block.ms"), _CALLS),
    (("delivery.timeout.ms",), "a record has two minutes, then Spark tries its task again, so leave it out"),
    (("transactional.id",), "write option transactionalId, or nothing: a query has a name for its transactions"),
    (("transaction.timeout.ms",), "write option maxDurationMs, or nothing"),
    (
        ("partitioner.class", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable"),
        "write option partitioner, which is fnv1a, or murmur2 for the partitions that Kafka's clients choose",
    ),
    (("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"), _CAST),
    (("auto.offset.reset",), "write option startingOffsets, which says where a new query begins"),
    (("enable.auto.commit", "auto.commit.interval.ms"), "Spark's checkpoint keeps what was read, so leave it out"),
    (("group.id", "group.instance.id", "group.protocol", "group.remote.assignor"), _NO_GROUP),
    (("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"), _NO_GROUP),
    (("max.poll.interval.ms",), _NO_GROUP),
    (("max.poll.records",), _FETCH),
    (("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"), _FETCH),
    (("allow.auto.create.topics",), "write option createTopicPartitions, with which a sink creates its topic"),
    (("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type"), _CA),
    (("ssl.truststore.certificates",), _CA),
    (("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key"), _KEY),
    (("ssl.keystore.certificate.chain", "ssl.key.password"), _KEY),
    (("ssl.endpoint.identification.algorithm",), "the name of a broker is always checked, so leave it out"),
    (("interceptor.classes", "metric.reporters", "metrics.recording.level"), _PLUG_IN),
)
_FAMILIES: Final = {
    "sasl.": _WHO,
    "ssl.": "options sslCafile, sslCertfile and sslKeyfile are all of TLS, so leave it out",
}
"""The hints about further properties that begin with these words."""

INSTEAD: Final[Mapping[str, str]] = dict(_CONNECTOR) | {
    f"{_PREFIX}{name}": sentence for names, sentence in _CLIENT for name in names
}
"""Options that are refused, and why or what to write."""

SAME: Final[Mapping[str, str]] = {
    option.kafka.removeprefix(_PREFIX): name
    for name, option in (option_table.CONNECTION | option_table.SOURCE | option_table.SINK).items()
    if option.kafka.startswith(_PREFIX)
    and option.kafka not in INSTEAD
    and not option.kafka.removeprefix(_PREFIX).startswith(tuple(_FAMILIES))
}
"""Properties of Kafka's clients that mean what an option of ours means: those of the table that are not refused."""

_BY_LOWER: Final = {name.lower(): (name, sentence) for name, sentence in INSTEAD.items()}


def option_of(name: str) -> str | None:
    """Our option that means the same as Kafka's property `name`, which may be in any case."""
    return SAME.get(name.lower().removeprefix(_PREFIX))


def refusal(name: str) -> str | None:
    """Returns the hint for an option of Kafka's that a user gave; None when Kafka has no such option."""
    lower = name.lower()
    found = _BY_LOWER.get(lower) or _BY_LOWER.get(_PREFIX + lower)
    if found is not None:
        return _said(found[0], found[1])
    bare = lower.removeprefix(_PREFIX)
    family = next((sentence for start, sentence in _FAMILIES.items() if bare.startswith(start)), None)
    if family is not None:
        return _said(name, family)
    if not lower.startswith(_PREFIX):
        return None
    near = _near(lower, (*(_PREFIX + same for same in SAME), *_BY_LOWER))
    return f"unknown option {name}; did you mean {near}?" if near else _said(name, _OF_CLIENT)


def _said(name: str, sentence: str) -> str:
    return f"option {name} is not taken: {sentence}"


def _near(lower: str, names: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(lower, list(names), n=1, cutoff=_CLOSE)), "")
