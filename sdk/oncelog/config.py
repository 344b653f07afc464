"""The options of clients, producers and consumers, with the names that Kafka users type.

Rule 1: frozen, checked when built; an unknown name raises `ConfigError` that suggests the nearest known one.
Rule 2: `bootstrap.servers` and `bootstrap_servers` are the same name. Times are milliseconds, sizes bytes.
Rule 3: defaults are the safe ones: acks "all", idempotence on, read_committed (Kafka's Java consumer differs there).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from oncelog import delivery_presets
from oncelog.errors import ConfigError, InvalidRequiredAcksError
from oncelog.option_checks import at_least, coerce, is_text, one_of, positive, secret, suggestion, text, within
from oncelog.value_types import Deserializer, Serializer

C = TypeVar("C")
Partitioner = Callable[[bytes | None, int], int]
"""(key, number of partitions) -> partition; called for every record that names no partition."""

TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a bearer token that counts now; called for each new connection, in a thread."""

ACKS_ALL: Final = -1
PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, SSL)
COMPRESSION_TYPES: Final = ("none", "lz4", "zstd")
FNV1A: Final = "fnv1a"
MURMUR2: Final = "murmur2"
KEY_HASHES: Final = (FNV1A, MURMUR2)
"""How a key may choose its partition, `murmur2` as Kafka's Java producer does it."""
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
SKIP: Final = "skip"
DELIVER: Final = "deliver"
REJECT: Final = "reject"
MAX_IN_FLIGHT: Final = 100_000
"""The most that one worker may ask for: a broker takes no more."""
CHANNEL_OPTIONS: Final[Mapping[str, tuple[int, int] | type[bool] | type[str]]] = {
    "ack_wait_ms": (100, 43_200_000),
    "max_deliveries": (0, 1_000_000),
    "dead_letter_topic": str,
    "retry_backoff_ms": (0, 86_400_000),
    "retry_backoff_max_ms": (0, 86_400_000),
    "order_by_key": bool,
    "ephemeral": bool,
    "max_unsettled": (1, 1_000_000),
}
"""The options of channels, each with its lowest and highest value, or its type."""
_MAX_INT: Final = 2**31 - 1
_MAX_POLL_INTERVAL_MS: Final = 3_600_000
"""Coordinators let no member keep others waiting for longer."""
_HIGHEST_PORT: Final = 65_535
_METADATA_BYTES: Final = 1_024
"""An encoded batch has fewer bytes of header, of Arrow's metadata and of padding."""
MAX_REQUESTS_IN_FLIGHT: Final = 16
"""Batches of one producer that the leader of a partition remembers, so that a repeat of any of them gets the first answer."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The options that all parts of a client share.

    `security_protocol` "SSL": TLS. `ssl_cafile` is the PEM file of the CA that signs the brokers (empty = the public CAs
    that gRPC brings), `ssl_certfile` and `ssl_keyfile` prove who this client is. They are read again for each new
    connection; the broker's certificate must hold the host name that is dialled.

    Who this client is may be said by a token too (`token`; `token_file`, read again for each new connection; or
    `token_provider`, a function that returns one, maybe awaitable), or by `username` with `password` or `password_file`.
    """

    bootstrap_servers: tuple[str, ...] = ()
    """Addresses of brokers, host:port each, of which the first that answers names all others; the first argument of
    `Client`, which needs at least one. Kafka: `bootstrap.servers`.
    """
    client_id: str = "oncelog-python"
    """The name of this client, told to brokers and shown in traces. Kafka: `client.id`."""
    request_timeout_ms: int = 30_000
    """How long one call may take before it is given up and, where that is safe, tried again. Kafka:
    `request.timeout.ms`.
    """
    default_api_timeout_ms: int = 60_000
    """How long an operation may take, all its tries together, that names no time-out of its own; a partition that
    cannot be read for so long is an error of the read. Kafka: `default.api.timeout.ms`.
    """
    bootstrap_timeout_ms: int = 5_000
    """How long a client that has never reached the cluster tries before it says so, with what happened at each address;
    later calls have their own time-outs.
    """
    retry_backoff_ms: int = 20
    """The wait before the second try, doubled with each one that follows; half of it is left to chance. Kafka:
    `retry.backoff.ms`.
    """
    retry_backoff_max_ms: int = 250
    """The longest wait between two tries, never below `retry_backoff_ms`. Kafka: `retry.backoff.max.ms`."""
    metadata_max_age_ms: int = 300_000
    """Metadata of a topic is refreshed after this time, so a consumer of whole topics finds added partitions.
    Kafka: `metadata.max.age.ms`.
    """
    metadata_attempt_timeout_ms: int = 2_000
    """How long one broker may take to tell what it knows of topics and leaders."""
    close_timeout_ms: int = 30_000
    """How long `close` waits for what is on its way, and a cancelled commit or abort for its own end."""
    security_protocol: str = PLAINTEXT
    """`PLAINTEXT`, or `SSL` for TLS. Kafka: `security.protocol`."""
    ssl_cafile: str = ""
    """The PEM file of the CA that signs the brokers' certificates; empty means the public CAs that gRPC brings.
    Kafka: `ssl.truststore.location`.
    """
    ssl_certfile: str = ""
    """The PEM certificate that proves who this client is; given together with `ssl_keyfile`. Kafka:
    `ssl.keystore.certificate.chain`.
    """
    ssl_keyfile: str = ""
    """The PEM key of `ssl_certfile`. Kafka: `ssl.keystore.key`."""
    token: str = field(default="", repr=False)
    """A bearer token that says who this client is; excludes `token_file`, `token_provider` and `username`."""
    token_file: str = ""
    """A file with a bearer token, read again for each new connection."""
    token_provider: TokenProvider | None = field(default=None, repr=False)
    """A function that returns a bearer token, maybe awaitable, called in a thread for each new connection. Kafka:
    `sasl.login.callback.handler.class`.
    """
    username: str = ""
    """The user whose password is `password`, or stands in `password_file`. Kafka: `sasl.jaas.config`."""
    password: str = field(default="", repr=False)
    """The password of `username`. Kafka: `sasl.jaas.config`."""
    password_file: str = ""
    """A file with the password of `username`, read once, with the first call."""
    otlp_endpoint: str = ""
    """Where traces go when the application has set up no OpenTelemetry itself, as http://host:4317; empty means
    ONCELOG_OTLP_ENDPOINT of the environment, and without that no traces.
    """
    trace_sampler: str = ""
    """Which traces are recorded that begin here, by the names of OpenTelemetry; empty means ONCELOG_TRACE_SAMPLER,
    and without that `parentbased_always_on`.
    """
    trace_sampler_arg: float = 1.0
    """The share of the traces that a ratio sampler records, 0 to 1; counts when `trace_sampler` is given."""

    def __post_init__(self) -> None:
        """Raises `ConfigError`."""
        positive(self, "default_api_timeout_ms", "retry_backoff_ms", "metadata_max_age_ms")
        within(self, "request_timeout_ms", 1, _MAX_INT)
        text(self, "client_id", "username")
        secret(self, "token", "password")
        positive(self, "metadata_attempt_timeout_ms", "close_timeout_ms", "bootstrap_timeout_ms")
        at_least(self, "retry_backoff_max_ms", self.retry_backoff_ms)
        self._check_security()

    def _check_security(self) -> None:
        one_of(self, "security_protocol", SECURITY_PROTOCOLS)
        given = [name for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile") if getattr(self, name)]
        if given and self.security_protocol == PLAINTEXT:
            raise ConfigError(f"{given[0]} has no use in plaintext: set security_protocol='{SSL}'")
        if bool(self.ssl_certfile) != bool(self.ssl_keyfile):
            raise ConfigError("ssl_certfile and ssl_keyfile belong together: give both, or none")
        self._check_identity()

    def _check_identity(self) -> None:
        given = [name for name in ("token", "token_file", "token_provider", "username") if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(f"{given[0]} and {given[1]} both say who this client is: give one of them")
        passwords = [name for name in ("password", "password_file") if getattr(self, name)]
        if len(passwords) > 1:
            raise ConfigError("give password or password_file, not both")
        if bool(passwords) != bool(self.username):
            raise ConfigError("username belongs together with password or password_file")


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """The options of one producer."""

    delivery: str = ""
    """A preset that sets the options of a promise and refuses what contradicts it: `at_most_once` is `acks=0` without
    idempotence, `at_least_once` is `acks=all` with at least one retry, `exactly_once` is an idempotent producer with a
    `transactional_id`. Empty: as the other options say.
    """
    acks: int | str = "all"
    """When a record counts as written: `all` after every in-sync replica has it, `1` after the leader, `0` when it
    was given to the network; less than `all` needs `enable_idempotence=False`. Kafka: `acks`.
    """
    enable_idempotence: bool = True
    """A batch is in the log once, however often it is sent. Kafka: `enable.idempotence`."""
    transactional_id: str | None = None
    """The name under which this producer's transactions are known; the next producer with this name fences this one.
    None means no transactions. Kafka: `transactional.id`.
    """
    transaction_timeout_ms: int = 60_000
    """A transaction that is open for longer is aborted by its coordinator, which has a largest value of its own
    (`transaction_max_timeout_ms`). Kafka: `transaction.timeout.ms`.
    """
    delivery_timeout_ms: int = 120_000
    """How long a record may take from `send` to its acknowledgement, waiting and retries included; above `linger_ms`.
    Kafka: `delivery.timeout.ms`.
    """
    linger_ms: int = 0
    """How long an open batch waits for more records, beside the time in which five others are under way. Kafka: `linger.ms`.
    """
    batch_size: int = 1 << 20
    """A batch with so many bytes, before compression, is full, or with three quarters of `max_request_size` if that is less,
    since short records take more when they are encoded. Unit: bytes. Kafka: `batch.size`.
    """
    max_request_size: int = 8 << 20
    """The most bytes of one record, of one batch and of one request; not below `batch_size`. Unit: bytes. Kafka:
    `max.request.size`.
    """
    buffer_memory: int = 64 << 20
    """The most bytes of records that wait for their acknowledgement; not below `batch_size`. Unit: bytes. Kafka:
    `buffer.memory`.
    """
    max_block_ms: int = 60_000
    """How long `send` waits for room in `buffer_memory`, or for what is known of the topic. Kafka: `max.block.ms`."""
    compression_type: str = "none"
    """How batches are compressed. Kafka: `compression.type`."""
    max_in_flight_requests_per_connection: int = 16
    """Requests on their way to one broker at the same time; at most 16 with idempotence, because the leader remembers
    16 batches of a producer. While five are under way, a batch that is not full grows instead, and none follows above
    2 MiB of a partition, or right after a quota. Kafka: `max.in.flight.requests.per.connection`.
    """
    retries: int = _MAX_INT
    """How often a batch is tried again before `delivery_timeout_ms` ends it. Kafka: `retries`."""
    partitioner: str | Partitioner = FNV1A
    """Which hash of the key names the partition of a record that names none: `fnv1a`, or `murmur2`, which is Kafka's; records
    without a key are spread batch by batch. Or a function of (key, number of partitions), called for each record of `send`
    and `send_many`, with or without a key; Arrow data then goes by `fnv1a`. Kafka: `partitioner.class`.
    """
    key_serializer: Serializer | None = None
    """A function that makes bytes of a key, called with None where a record has none; without it, keys are bytes or
    text. What it takes is the type of keys for type checkers. Kafka: `key.serializer`.
    """
    value_serializer: Serializer | None = None
    """A function that makes bytes of a value, called with None where a record has none; without it, values are bytes or
    text. What it takes is the type of values for type checkers. Kafka: `value.serializer`.
    """

    def __post_init__(self) -> None:
        """Raises `ConfigError`, or `InvalidRequiredAcksError`."""
        positive(self, "delivery_timeout_ms", "batch_size", "max_request_size")
        within(self, "transaction_timeout_ms", 1, _MAX_INT)
        text(self, "transactional_id")
        positive(self, "buffer_memory", "max_in_flight_requests_per_connection")
        at_least(self, "linger_ms", 0)
        at_least(self, "max_block_ms", 0)
        at_least(self, "retries", 0)
        at_least(self, "delivery_timeout_ms", self.linger_ms + 1)
        at_least(self, "max_request_size", self.batch_size)
        at_least(self, "buffer_memory", self.batch_size)
        one_of(self, "compression_type", COMPRESSION_TYPES)
        if not callable(self.partitioner):
            one_of(self, "partitioner", KEY_HASHES)
        delivery_presets.check(delivery_presets.OF_PRODUCERS, self)
        if self.delivery == delivery_presets.AT_LEAST_ONCE:
            at_least(self, "retries", 1)
        self._check_idempotence()

    def _check_idempotence(self) -> None:
        if self.acks_number != ACKS_ALL and self.enable_idempotence:
            raise ConfigError("idempotence needs acks='all'; set enable_idempotence=False for less", acks=self.acks)
        if self.max_in_flight_requests_per_connection > MAX_REQUESTS_IN_FLIGHT and self.enable_idempotence:
            raise ConfigError(
                f"idempotence allows at most {MAX_REQUESTS_IN_FLIGHT} requests in flight: "
                f"the leader remembers {MAX_REQUESTS_IN_FLIGHT} batches of a producer",
                max_in_flight_requests_per_connection=self.max_in_flight_requests_per_connection,
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("a transactional producer is idempotent: enable_idempotence=False contradicts it")

    @property
    def full_batch_bytes(self) -> int:
        """A batch with so many bytes is full: `batch_size`, or less, so that many records which are small enough make no batch
        that is too large. A record without key and value takes 16 bytes as it is counted, and up to 20.4 when it is encoded.
        """
        return min(self.batch_size, max(1, (self.max_request_size - _METADATA_BYTES) * 3 // 4))

    @property
    def key_hash(self) -> str:
        """The hash by which Arrow data goes to partitions, and all else where `partitioner` is no function."""
        return self.partitioner if isinstance(self.partitioner, str) else FNV1A

    @property
    def acks_number(self) -> int:
        """-1 for "all", as it stands in a request."""
        number = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}.get(str(self.acks))
        if number is None:
            raise InvalidRequiredAcksError('acks is none of 0, 1, "all"', given=self.acks)
        return number


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """The options of one consumer."""

    delivery: str = ""
    """A preset that sets the options of a promise and refuses what contradicts it: `at_most_once` commits positions before
    the records are returned, `at_least_once` commits what earlier reads returned, `exactly_once` leaves the offsets to
    `Transaction.send_offsets` and reads `read_committed`. Empty: as the other options say.
    """
    group_id: str | None = None
    """The group that keeps this consumer's committed offsets, and whose members share the partitions of the topics that they
    subscribe to: with `subscribe`, or as topics of `client.consumer`. Kafka: `group.id`.
    """
    group_instance_id: str = ""
    """The name of a static member: a consumer that comes back under it within the session time-out gets its partitions
    back, and no other member moved. Empty: none. Kafka: `group.instance.id`.
    """
    group_remote_assignor: str = ""
    """How the coordinator shares partitions: `sticky` moves the fewest, `range` or `round_robin`. Empty: as the other members
    say, else `sticky`. Kafka: `group.remote.assignor`.
    """
    client_rack: str = ""
    """The rack or zone in which this consumer runs: it reads from an in-sync replica there instead of the leader, and assignors
    prefer partitions with a replica there. Empty: always from the leader. Kafka: `client.rack`.
    """
    max_poll_interval_ms: int = 300_000
    """A consumer that does not read for so long gives its partitions to other members of its group. Kafka:
    `max.poll.interval.ms`.
    """
    auto_offset_reset: str = "latest"
    """Where reading begins when there is no committed offset, or what was there is gone: at the end, at the first
    record that is kept, or with an error. Kafka: `auto.offset.reset`.
    """
    isolation_level: str = READ_COMMITTED
    """Whether records of open and aborted transactions are read too. Kafka: `isolation.level`."""
    enable_auto_commit: bool = False
    """Whether reads commit the positions every `auto_commit_interval_ms`. What a read returned is committed by a later read,
    by a change of the assignment or by `close`: a record counts as processed when the next ones are asked for. Kafka:
    `enable.auto.commit`, which is on by default there.
    """
    auto_commit_interval_ms: int = 5_000
    """How often reads commit when `enable_auto_commit` is on. Kafka: `auto.commit.interval.ms`."""
    max_poll_records: int = 500
    """The most records that one `getmany` returns. Kafka: `max.poll.records`."""
    fetch_min_bytes: int = 1
    """A broker holds its answer until so many bytes are there, or `fetch_max_wait_ms` have passed. Kafka:
    `fetch.min.bytes`.
    """
    fetch_max_wait_ms: int = 500
    """How long a broker may hold an answer that has too little. Kafka: `fetch.max.wait.ms`."""
    fetch_max_bytes: int = 8 << 20
    """The most bytes that are asked for in one call. Kafka: `fetch.max.bytes`."""
    max_partition_fetch_bytes: int = 2 << 20
    """The most bytes that are asked for in one call of one partition, or its share of `max_buffered_bytes` if that is less.
    Kafka: `max.partition.fetch.bytes`.
    """
    max_buffered_bytes: int = 32 << 20
    """About how many bytes are fetched ahead, shared by all partitions, and how many are unpacked at a time."""
    max_uncompressed_batch_bytes: int = 64 << 20
    """A batch that says to be larger than this, unpacked, is refused rather than unpacked."""
    trace_consumer_parent: str = "link"
    """Whether the span of `processing(record)` is linked to the record's own trace, or is a part of it."""
    check_crcs: bool = True
    """Whether the checksum of each batch is compared before it is unpacked. Kafka: `check.crcs`."""
    skip_lost_transactions: bool = False
    """Whether to pass over committed transactions that lost records in a power cut of all replicas; otherwise
    `TransactionDataLossError` says so where they are.
    """
    expired: str = SKIP
    """How a record is treated whose time to live has passed: `skip` passes over it, `deliver` returns it like any other.
    `read_range` returns all of them.
    """
    key_deserializer: Deserializer | None = None
    """A function that makes a key of bytes or None; without it, keys are bytes or None. What it returns is the type of
    keys for type checkers. Kafka: `key.deserializer`.
    """
    value_deserializer: Deserializer | None = None
    """A function that makes a value of bytes or None; without it, values are bytes or None. What it returns is the type of
    values for type checkers. Kafka: `value.deserializer`.
    """

    def __post_init__(self) -> None:
        """Raises `ConfigError`."""
        positive(self, "max_poll_records", "auto_commit_interval_ms")
        positive(self, "max_buffered_bytes", "max_uncompressed_batch_bytes")
        for name in ("fetch_max_bytes", "max_partition_fetch_bytes"):
            within(self, name, 1, _MAX_INT)
        within(self, "max_poll_interval_ms", 1, _MAX_POLL_INTERVAL_MS)
        for name in ("fetch_min_bytes", "fetch_max_wait_ms"):
            within(self, name, 0, _MAX_INT)
        text(self, "group_id", "group_instance_id", "group_remote_assignor", "client_rack")
        one_of(self, "auto_offset_reset", ("latest", "earliest", "none"))
        one_of(self, "isolation_level", (READ_COMMITTED, READ_UNCOMMITTED))
        one_of(self, "trace_consumer_parent", ("link", "message"))
        one_of(self, "expired", (SKIP, DELIVER))
        delivery_presets.check(delivery_presets.OF_CONSUMERS, self)
        if self.enable_auto_commit and self.group_id is None:
            raise ConfigError("enable_auto_commit commits offsets of a group: give a group_id")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The options of one worker of a channel. Those from `ack_wait_ms` to `max_unsettled` are the channel's: a worker that
    makes the channel gives it these, and one that finds it warns where it has others. None: the channel's own, or its default.
    """

    max_in_flight: int = 100
    """How many records the worker may hold that it has not settled, of all brokers together. NSQ: `max_in_flight`. Kafka:
    `max.poll.records`.
    """
    start: str | int = EARLIEST
    """Where a channel that the worker makes begins: at the first record, at the `latest`, or at the first one at or after
    a time in milliseconds since 1970. Kafka: `share.auto.offset.reset`.
    """
    create: bool = True
    """Whether the worker makes the channel when it is not there. Otherwise that is an `UnknownChannelError`."""
    auto_touch: bool = False
    """Whether the worker itself tells the broker in time that a record is still worked on, as long as its event loop runs:
    work that blocks the loop stops that. Otherwise a record that is not settled within `ack_wait_ms` comes again.
    """
    expired: str = SKIP
    """How a record is treated whose time to live has passed: `skip` acknowledges it unseen, `deliver` hands it out like
    any other.
    """
    key_deserializer: Deserializer | None = None
    """A function that makes a key of bytes or None; without it, keys are bytes or None. It is called when `message.key` is
    read for the first time. What it returns is the type of keys for type checkers. Kafka: `key.deserializer`.
    """
    value_deserializer: Deserializer | None = None
    """A function that makes a value of bytes or None; without it, values are bytes or None. It is called when
    `message.value` is read for the first time. What it returns is the type of values for type checkers. Kafka:
    `value.deserializer`.
    """
    undecodable: str = DELIVER
    """How a record is treated that a deserializer refuses: `deliver` hands it out, and `message.key` or `message.value`
    raises what the deserializer raised; `reject` rejects it unseen, so that it goes to the dead-letter topic with that as its
    reason.
    """
    max_bytes: int = 1 << 20
    """The most bytes of records in one answer of a broker; the first record always comes. Kafka: `fetch.max.bytes`."""
    max_uncompressed_batch_bytes: int = 64 << 20
    """A batch that says to be larger than this, unpacked, is refused rather than unpacked."""
    trace_consumer_parent: str = "link"
    """In a trace, `worker.processing(message)` is linked to where the record was created, or, with `message`, a part of the
    record's own trace.
    """
    ack_wait_ms: int | None = None
    """How long a worker may hold a record before it comes again, to whichever worker is free; 30 s by default. Kafka:
    `share.record.lock.duration.ms`.
    """
    max_deliveries: int | None = None
    """After how many deliveries without an acknowledgement a record is dead; 0, which is the default: there is no bound. Kafka:
    `share.delivery.count.limit`.
    """
    dead_letter_topic: str | None = None
    """The topic to which dead records are written; empty, which is the default: they are dropped, and counted."""
    retry_backoff_ms: int | None = None
    """How long a record waits for its second delivery; doubled with each further one. By default it does not wait."""
    retry_backoff_max_ms: int | None = None
    """The longest such wait; 10 minutes by default."""
    order_by_key: bool | None = None
    """Whether at most one record of a key is with workers at a time, in the order of the log. Cannot be changed later."""
    ephemeral: bool | None = None
    """Whether the channel vanishes with its last worker. Cannot be changed later."""
    max_unsettled: int | None = None
    """How far past its first unsettled record a partition delivers; 100,000 offsets by default."""

    def __post_init__(self) -> None:
        """Raises `ConfigError`."""
        positive(self, "max_uncompressed_batch_bytes")
        within(self, "max_in_flight", 1, MAX_IN_FLIGHT)
        within(self, "max_bytes", 1, _MAX_INT)
        one_of(self, "expired", (SKIP, DELIVER))
        one_of(self, "undecodable", (DELIVER, REJECT))
        one_of(self, "trace_consumer_parent", ("link", "message"))
        start_time_ms(self.start)
        check_channel_options(self.channel_options)

    @property
    def channel_options(self) -> dict[str, int | str | bool]:
        """The options of the channel that were given."""
        given = {name: getattr(self, name) for name in CHANNEL_OPTIONS}
        return {name: value for name, value in given.items() if value is not None}


def check_channel_options(options: Mapping[str, object]) -> None:
    """Raises `ConfigError` for a value that no channel has."""
    for name, value in options.items():
        if name not in CHANNEL_OPTIONS:
            raise ConfigError(f"unknown option `{name}`{suggestion(name, list(CHANNEL_OPTIONS))}")
        bounds = CHANNEL_OPTIONS[name]
        if isinstance(bounds, type):
            if not (is_text(value) if bounds is str else isinstance(value, bounds)):
                raise ConfigError(f"`{name}` is {value!r}, and must be {'text' if bounds is str else 'true or false'}")
        elif type(value) is not int or not bounds[0] <= value <= bounds[1]:
            raise ConfigError(f"`{name}` is {value!r}, and must be {bounds[0]} to {bounds[1]}")
    pause, longest = options.get("retry_backoff_ms"), options.get("retry_backoff_max_ms")
    if isinstance(pause, int) and isinstance(longest, int) and longest < pause:
        raise ConfigError(f"`retry_backoff_max_ms` is {longest}, and must be at least `retry_backoff_ms`, {pause}")


def start_time_ms(start: str | int) -> int:
    """Where a channel begins, as requests have it: -1 the end, -2 the beginning, else milliseconds since 1970. Raises
    `ConfigError`.
    """
    if isinstance(start, str) and start in (LATEST, EARLIEST):
        return -1 if start == LATEST else -2
    if type(start) is not int or not 0 < start < 1 << 53:
        raise ConfigError("`start` is earliest, latest, or milliseconds since 1970", given=start)
    return start


def load(kind: type[C], given: Mapping[str, object], also: Iterable[str] = ()) -> C:
    """A checked configuration of this kind, with what its `delivery` preset sets. Raises `ConfigError` for unknown names and
    illegal values.

    `also`: names that the caller has taken out already, to be suggested too.
    """
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, object] = {}
    for typed, value in given.items():
        name = typed.replace(".", "_")
        if name not in known:
            raise ConfigError(f"unknown option `{typed}`{suggestion(name, sorted({*known, *also}))}")
        if name in values:
            raise ConfigError(f"option `{name}` is given twice")
        values[name] = coerce(name, value, known[name].default)
    return kind(**delivery_presets.completed(_PRESETS.get(kind, {}), values))


_PRESETS: Final[Mapping[type, Mapping[str, delivery_presets.Preset]]] = {
    ProducerConfig: delivery_presets.OF_PRODUCERS,
    ConsumerConfig: delivery_presets.OF_CONSUMERS,
}


def addresses(given: object) -> tuple[str, ...]:
    """Bootstrap addresses from "host:port,host:port" or a list. Raises `ConfigError`."""
    items = given.split(",") if isinstance(given, str) else [*given] if isinstance(given, Iterable) else [given]
    texts = [item.strip() for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise ConfigError('bootstrap_servers is no text: give "host:port,host:port", or a list', given=repr(given)[:64])
    found = tuple(item for item in texts if item)
    if not found:
        raise ConfigError("bootstrap_servers is empty; give host:port, or several")
    for item in found:
        host, _, port = item.rpartition(":")
        if not host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) <= _HIGHEST_PORT:
            raise ConfigError("a bootstrap address is host:port", given=item)
    return found
