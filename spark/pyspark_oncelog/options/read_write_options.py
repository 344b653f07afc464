"""Parses and checks the options of a read or a write, before anything else happens.

Rule 1: option names are case-insensitive, as everywhere in Spark; an unknown name is an error with a suggestion.
Rule 2: contradictions are refused here, on the driver, before data is computed.
Rule 3: nothing here imports grpc or pyarrow: Spark imports this module in every session.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from oncelog.config import KEY_HASHES
from oncelog.core.names import TOPIC_NAMES, check_group_id, check_transactional_id, is_topic_name
from oncelog.errors import ConfigError, InvalidGroupIdError, InvalidRequestError
from oncelog.trace.tracing import SAMPLERS
from pyspark_oncelog.options import kafka_options, option_table
from pyspark_oncelog.options.identity import transactional_id_of
from pyspark_oncelog.options.offsets import (
    EARLIEST,
    LATEST,
    StartingOffsets,
    parse_assignment,
    parse_offsets_option,
    parse_times,
)

CONNECTION: Final = tuple(option_table.CONNECTION)
SOURCE: Final = tuple(option_table.SOURCE)
SINK: Final = tuple(option_table.SINK)
_FROM_SPARK: Final = ("checkpointlocation", "queryname")
_PATH: Final = "path"
_HEADERS_OF_KAFKA: Final = "includeheaders"
"""Kafka's sink needs an option to write the column `headers`; ours writes the column if the DataFrame has it."""
_REFUSED: Final = {
    "_asyncprogresstrackingoverridesinksupportcheck": "asynchronous progress tracking breaks exactly-once",
    "asyncprogresstrackingenabled": "asynchronous progress tracking breaks exactly-once",
    "asyncprogresstrackingcheckpointintervalms": "asynchronous progress tracking breaks exactly-once",
}
_CATALOG_PROVIDER: Final = "provider"
"""A property that Spark gives to the table of a CREATE TABLE, beside the options; it is no option of ours."""
_FORGETS: Final = (
    "when a table of its catalog is read or written, Spark does not hand its OPTIONS to a data source in Python. Use "
    "CREATE TEMPORARY VIEW ... USING oncelog OPTIONS (...)"
)
_SASL: Final = "who the job is, is said by options username and passwordFile, or tokenFile, with SSL"
_DEFAULT_BATCH_BYTES: Final = 3 << 20
_LARGEST_BATCH_BYTES: Final = 7 << 20
"""A topic takes batches of up to 8 MiB by default."""
_LONGEST_TIMEOUT_MS: Final = 1 << 40
"""The bound of every number among a client's options."""
_PARTITIONS_MAX: Final = (1 << 31) - 1
"""The bound of the wire; a cluster takes fewer, and says how many."""
_LONGEST_LEASE_MS: Final = 86_400_000
_LONGEST_DURATION_MS: Final = 7 * 86_400_000
_APP_ID_CHARACTERS: Final = 256
"""The bounds that coordinators accept."""
_DEFAULT_REQUEST_BYTES: Final = 8 << 20
"""The largest batch that a topic takes by default."""
_SMALLEST_REQUEST_BYTES: Final = 1 << 20
_LARGEST_REQUEST_BYTES: Final = 32 << 20
"""Brokers take and give messages of 64 MiB by default, and a producer keeps so much of what it has sent: two of these."""
_DEFAULT_ROWS_PER_TASK: Final = 50_000
_DEFAULT_TRIGGER_DELAY: Final = "15m"
_TRACE_SAMPLERS: Final = tuple(dict.fromkeys(("parentbased_always_on", *SAMPLERS)))
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_ENDPOINT: Final = re.compile(r"https?://[^/:\s]+:\d+/?")
_DURATION: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|min|h|d)")


def _normalise(raw: Mapping[str, str], is_read: bool, streaming: bool = False) -> dict[str, str]:
    """Canonical names, and values, of a read or a write.

    A view of SQL is read and written with the same options, and says of neither that it is one: so what is for the other side
    of it is left out of a batch. No view is read or written by a stream, where it is refused as all that has no effect.
    Raises `ConfigError` that names every option that is not taken, so that the user sees all of them at once.
    """
    by_lower = {name.lower(): name for name in CONNECTION + (SOURCE if is_read else SINK)}
    found: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, value in raw.items():
        canonical = by_lower.get(name.lower()) or kafka_options.option_of(name)
        if canonical is not None and canonical in by_lower.values():
            if found.setdefault(canonical, str(value)) != str(value):
                refused[name] = f"option {canonical} is given under two names with two values: give one of them"
        elif said := _refusal(name, canonical, by_lower, is_read, streaming):
            refused[name] = said
    if set(map(str.lower, refused)) == {"path"} and not found:
        return {}  # a table's: what it lacks is said instead
    if refused:
        raise ConfigError("\n".join(refused.values()), option=", ".join(refused))
    return found


def _refusal(name: str, same: str | None, by_lower: Mapping[str, str], is_read: bool, streaming: bool) -> str:
    """Why an option is not taken, and what to write instead; empty when it is passed over. `same`: what it is called here."""
    lower = name.lower()
    if lower in _FROM_SPARK or (lower == _HEADERS_OF_KAFKA and not is_read):
        return ""
    if lower == _PATH:
        return (
            f"option path, which load(), save() and start() make of what they are given, names no topic: write option "
            f"{'subscribe' if is_read else 'topic'}"
        )
    if same is not None or lower in {other.lower() for other in (SINK if is_read else SOURCE)}:
        here, there = ("read", "write") if is_read else ("write", "read")
        return f"option {name} is for a {there} and has no effect on this {here}: leave it out" if streaming else ""
    if lower in _REFUSED:
        return f"option {name} is not supported: {_REFUSED[lower]}"
    if said := kafka_options.refusal(name):
        return said
    near = difflib.get_close_matches(lower, list(by_lower), n=1)
    return f"unknown option {name}" + (f"; did you mean {by_lower[near[0]]}?" if near else "")


def check_names(raw: Mapping[str, str]) -> None:
    """Raises `ConfigError` for names that no read knows, and for those of a table that Spark would forget the options of."""
    if _CATALOG_PROVIDER in raw:
        raise ConfigError(f"CREATE TABLE makes no table of a topic: {_FORGETS}")
    _normalise(raw, is_read=True)


def _integer(options: Mapping[str, str], name: str, default: int, minimum: int, maximum: int = (1 << 63) - 1) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(f"option {name} must be a whole number", given=text) from None
    if value < minimum:
        raise ConfigError(f"option {name} must be at least {minimum}", given=text)
    if value > maximum:
        raise ConfigError(f"option {name} must be at most {maximum}", given=text)
    return value


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name, choices[0]).lower()
    if value not in choices:
        raise ConfigError(f"option {name} must be one of {', '.join(choices)}", given=value)
    return value


def _share(options: Mapping[str, str], name: str) -> float:
    text = options.get(name, "1")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"option {name} must be 0 to 1", given=text)
    return value


def _endpoint(options: Mapping[str, str]) -> str:
    text = options.get("otlpEndpoint", "")
    if text and not _ENDPOINT.fullmatch(text):
        raise ConfigError(
            "option otlpEndpoint must be http://host:port (OTLP over gRPC, usually port 4317)", given=text
        )
    return text


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    return _choice(options, name, ("true", "false") if default else ("false", "true")) == "true"


def _duration_ms(options: Mapping[str, str], name: str, default: str) -> int:
    text = options.get(name, default).strip().lower()
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(f"option {name} must be a duration such as 90s, 15m or 2h", given=text)
    return int(match[1]) * _UNITS_MS[match[2]]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach the cluster. `request_timeout_ms` bounds every call, retries included.

    The files of `ssl_...`, `token_file` and `password_file` are paths on the driver and on every worker.
    """

    bootstrap_servers: str
    request_timeout_ms: int
    client_id: str
    security_protocol: str = "PLAINTEXT"
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    otlp_endpoint: str = ""
    """Set in what works for a batch that is recorded."""

    def traced(self, otlp_endpoint: str) -> ConnectionOptions:
        """The same, with traces of all calls."""
        return dataclasses.replace(self, otlp_endpoint=otlp_endpoint)

    @staticmethod
    def parse(options: Mapping[str, str]) -> ConnectionOptions:
        """Raises `ConfigError` when `bootstrapServers` is missing, or TLS options contradict each other."""
        servers = options.get("bootstrapServers", "")
        if not servers:
            hint = "" if options else f". If this is a table made by CREATE TABLE: {_FORGETS}"
            raise ConfigError(f'option bootstrapServers is required, for example "localhost:9092"{hint}')
        timeout_ms = _integer(options, "requestTimeoutMs", 60_000, 1, _LONGEST_TIMEOUT_MS)
        protocol = options.get("securityProtocol", "PLAINTEXT").upper()
        files = {name: options.get(name, "") for name in ("sslCafile", "sslCertfile", "sslKeyfile")}
        if protocol not in ("PLAINTEXT", "SSL"):
            hint = f": {_SASL}" if protocol.startswith("SASL_") else ""
            raise ConfigError(f"option securityProtocol must be PLAINTEXT or SSL{hint}", given=protocol)
        useless = next((name for name, path in files.items() if path and protocol == "PLAINTEXT"), None)
        if useless is not None:
            raise ConfigError(f"option {useless} has no use in plaintext: set option securityProtocol to SSL")
        if bool(files["sslCertfile"]) != bool(files["sslKeyfile"]):
            raise ConfigError("options sslCertfile and sslKeyfile belong together: give both, or none")
        identity = [options.get(name, "") for name in ("token", "tokenFile", "username", "password", "passwordFile")]
        _check_identity(*map(bool, identity))
        client_id = options.get("clientId", "spark")
        return ConnectionOptions(servers, timeout_ms, client_id, protocol, *files.values(), *identity)


def _check_identity(token: bool, token_file: bool, username: bool, password: bool, password_file: bool) -> None:
    """Raises `ConfigError` unless there is at most one way in which the job says who it is."""
    if token + token_file + username > 1:
        raise ConfigError("options token, tokenFile and username exclude each other: give one")
    if password and password_file:
        raise ConfigError("options password and passwordFile exclude each other: give one")
    if username != (password or password_file):
        raise ConfigError("option username belongs together with password or passwordFile")


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics to read: these names, or all whose whole name matches `pattern`, or these partitions of these topics."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def expected(self, read: Iterable[str]) -> frozenset[str]:
        """Names of topics that are to be there: those of the options, or what a pattern matches of those that were `read`."""
        if not self.pattern:
            return frozenset(self.topics)
        return frozenset(name for name in read if re.fullmatch(self.pattern, name))

    @staticmethod
    def parse(options: Mapping[str, str]) -> Subscription:
        """Raises `ConfigError` unless exactly one of subscribe, subscribePattern and assign is given."""
        given = [name for name in ("subscribe", "subscribePattern", "assign") if options.get(name, "").strip()]
        if not given:
            raise ConfigError('option subscribe is required: one or more topics, separated by ","')
        if len(given) > 1:
            raise ConfigError(f"options {' and '.join(given)} exclude each other: give one")
        text = options[given[0]].strip()
        if given == ["assign"]:
            partitions = parse_assignment(text)
            return Subscription(topics=tuple(partitions), partitions=partitions)
        if given == ["subscribe"]:
            topics = tuple(dict.fromkeys(t.strip() for t in text.split(",") if t.strip()))
            if not topics:
                raise ConfigError("option subscribe names no topic", given=text)
            return Subscription(topics)
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"option subscribePattern is no regular expression: {error}", given=text) from None
        return Subscription(pattern=text)


def _bound(options: Mapping[str, str], kind: str, default: str, unnamed: str, latest_if_none: bool) -> StartingOffsets:
    """Where reading starts or ends: a time for all beats a time per partition, and that beats offsets, as in Spark."""
    base = parse_offsets_option(options.get(f"{kind}Offsets", default), unnamed)
    if f"{kind}Timestamp" in options:
        time_ms = _integer(options, f"{kind}Timestamp", 0, 0)
        return StartingOffsets(unnamed, time_ms=time_ms, latest_if_none=latest_if_none)
    text = options.get(f"{kind}OffsetsByTimestamp")
    if text is None:
        return base
    times_ms = parse_times(text, f"{kind}OffsetsByTimestamp")
    return StartingOffsets(unnamed, times_ms=times_ms, latest_if_none=latest_if_none)


def _starting(options: Mapping[str, str], streaming: bool) -> StartingOffsets:
    strategy = _choice(options, "startingOffsetsByTimestampStrategy", ("error", "latest"))
    default = "latest" if streaming else "earliest"
    starting = _bound(options, "starting", default, "earliest", strategy == "latest")
    if not streaming and starting.names(LATEST):
        raise ConfigError("option startingOffsets cannot be latest in a batch read")
    return starting


def _ending(options: Mapping[str, str], streaming: bool) -> StartingOffsets:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if streaming and name in options:
            raise ConfigError(f"option {name} is for batch reads only")
    ending = _bound(options, "ending", "latest", "latest", latest_if_none=True)
    if ending.names(EARLIEST):
        raise ConfigError("option endingOffsets cannot be earliest")
    return ending


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a read. For all numbers 0 = no limit; `min_partitions` 0 = one task per partition or fewer.

    With `min_offsets_per_trigger` a micro-batch waits for so many offsets, but not longer than `max_trigger_delay_ms`.
    """

    connection: ConnectionOptions
    subscription: Subscription
    starting: StartingOffsets
    ending: StartingOffsets
    fail_on_data_loss: bool
    max_offsets_per_trigger: int
    min_offsets_per_trigger: int
    max_trigger_delay_ms: int
    min_partitions: int
    max_rows_per_task: int
    min_rows_per_task: int
    read_committed: bool
    commit_group: str
    client_rack: str = ""

    @staticmethod
    def parse(raw: Mapping[str, str], streaming: bool) -> SourceOptions:
        """Raises `ConfigError` for unknown names, illegal values, and what the kind of query does not allow."""
        options = _normalise(raw, is_read=True, streaming=streaming)
        most, least = _integer(options, "maxOffsetsPerTrigger", 0, 1), _integer(options, "minOffsetsPerTrigger", 0, 1)
        if most and least > most:
            raise ConfigError("option minOffsetsPerTrigger is above maxOffsetsPerTrigger", minimum=least, maximum=most)
        _boolean(options, "includeHeaders", False)  # what it says stands in the schema
        return SourceOptions(
            connection=ConnectionOptions.parse(options),
            subscription=Subscription.parse(options),
            starting=_starting(options, streaming),
            ending=_ending(options, streaming),
            fail_on_data_loss=_boolean(options, "failOnDataLoss", True),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay", _DEFAULT_TRIGGER_DELAY),
            min_partitions=_integer(options, "minPartitions", 0, 1),
            max_rows_per_task=_integer(options, "maxRecordsPerPartition", 0, 1),
            min_rows_per_task=_integer(options, "minRowsPerTask", _DEFAULT_ROWS_PER_TASK, 1),
            read_committed=_choice(options, "isolation", ("read_committed", "read_uncommitted")) == "read_committed",
            commit_group=_group(options),
            client_rack=options.get("clientRack", ""),
        )


def _group(options: Mapping[str, str]) -> str:
    """Raises `ConfigError` for a name that no group can have; empty = none."""
    name = options.get("commitGroup", "")
    try:
        return name and check_group_id(name)
    except InvalidGroupIdError as error:
        raise ConfigError(f"option commitGroup: {error.message}", given=ascii(name[:64])) from None


def _check_ids(options: Mapping[str, str]) -> None:
    """Raises `ConfigError` for names that no coordinator takes, and for a topic that cannot be."""
    app_id, given, topic = options.get("txnAppId"), options.get("transactionalId", ""), options.get("topic", "")
    if topic and not is_topic_name(topic):
        raise ConfigError(f"option topic: {TOPIC_NAMES}", given=ascii(topic[:64]))
    if app_id is not None and not (app_id.isprintable() and 0 < len(app_id) <= _APP_ID_CHARACTERS):
        raise ConfigError(
            f"option txnAppId is 1-{_APP_ID_CHARACTERS} characters of printable text", given=ascii(app_id[:64])
        )
    if not given and app_id is None:
        return  # the name is made of the query's id or of a random number then, and is always a legal one
    name = given or transactional_id_of(app_id or "", topic)
    try:
        check_transactional_id(name)
    except InvalidRequestError as error:
        option = "transactionalId" if given else "txnAppId"
        raise ConfigError(f"option {option}: {error.message}", given=ascii(name[:64])) from None


def _sizes(options: Mapping[str, str]) -> tuple[int, int]:
    """Bytes of a batch and of a request. What stands beside the rows of a batch fits into an eighth of a request."""
    request_bytes = _integer(
        options, "maxRequestBytes", _DEFAULT_REQUEST_BYTES, _SMALLEST_REQUEST_BYTES, _LARGEST_REQUEST_BYTES
    )
    room = request_bytes // 8 * 7
    batch_bytes = _integer(options, "batchBytes", min(_DEFAULT_BATCH_BYTES, room), 1 << 10, _LARGEST_BATCH_BYTES)
    if batch_bytes > room:
        raise ConfigError(
            "option batchBytes is above seven eighths of option maxRequestBytes: make it smaller, or leave it out",
            given=batch_bytes,
            largest=room,
        )
    return batch_bytes, request_bytes


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a write. `topic` empty = the `topic` column decides; `create_topic_partitions` 0 = never create.

    `batch_bytes`: rows of one partition that travel as one message, before compression; a topic with a smaller
    `max_message_bytes` wants it smaller. `max_request_bytes`: the largest message, and so the largest row.
    """

    connection: ConnectionOptions
    topic: str
    create_topic_partitions: int
    exactly_once: bool
    transactional_id: str
    txn_app_id: str
    txn_version: int
    partitioner: str
    compression_type: str
    batch_bytes: int
    max_request_bytes: int
    lease_ms: int
    max_duration_ms: int
    skip_rolled_back: bool
    keep_on_replay_mismatch: bool
    overwrite_appends: bool
    otlp_endpoint: str = ""
    trace_sampler: str = SAMPLERS[0]
    trace_sampler_arg: float = 1.0

    @staticmethod
    def parse(raw: Mapping[str, str], streaming: bool = False) -> SinkOptions:
        """Raises `ConfigError` for unknown names and illegal or contradictory values."""
        options = _normalise(raw, is_read=False, streaming=streaming)
        if ("txnAppId" in options) != ("txnVersion" in options):
            raise ConfigError("options txnAppId and txnVersion are given together, or neither")
        batch_bytes, max_request_bytes = _sizes(options)
        guarantee = _choice(options, "deliveryGuarantee", ("exactly_once", "at_least_once"))
        if guarantee != "exactly_once" and "txnAppId" in options:
            raise ConfigError("txnAppId needs deliveryGuarantee exactly_once")
        _check_ids(options)
        return SinkOptions(
            connection=ConnectionOptions.parse(options),
            topic=options.get("topic", ""),
            create_topic_partitions=_integer(options, "createTopicPartitions", 0, 1, _PARTITIONS_MAX),
            exactly_once=guarantee == "exactly_once",
            transactional_id=options.get("transactionalId", ""),
            txn_app_id=options.get("txnAppId", ""),
            txn_version=_integer(options, "txnVersion", -1, 0),
            partitioner=_choice(options, "partitioner", KEY_HASHES),
            compression_type=_choice(options, "compressionType", ("zstd", "lz4", "none")),
            batch_bytes=batch_bytes,
            max_request_bytes=max_request_bytes,
            lease_ms=_integer(options, "leaseMs", 60_000, 1_000, _LONGEST_LEASE_MS),
            max_duration_ms=_integer(options, "maxDurationMs", 3_600_000, 1_000, _LONGEST_DURATION_MS),
            skip_rolled_back=_choice(options, "onRolledBackBatch", ("fail", "skip")) == "skip",
            keep_on_replay_mismatch=_choice(options, "onReplayMismatch", ("fail", "keep")) == "keep",
            overwrite_appends=_choice(options, "onOverwrite", ("fail", "append")) == "append",
            otlp_endpoint=_endpoint(options),
            trace_sampler=_choice(options, "traceSampler", _TRACE_SAMPLERS),
            trace_sampler_arg=_share(options, "traceSamplerArg"),
        )
