"""What a user may set, with the names that Kafka users type.

Rule 1: frozen, checked when built; an unknown name raises `ConfigError` that suggests the nearest known one.
Rule 2: `bootstrap.servers` and `bootstrap_servers` are the same name. Times are milliseconds, sizes bytes.
Rule 3: defaults are the safe ones: acks "all", idempotence on, read_committed (Kafka's Java consumer differs there).
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from oncelog.errors import ConfigError, InvalidRequiredAcksError

C = TypeVar("C")
Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes | None], Any]
Partitioner = Callable[[bytes | None, int], int]
"""(key, number of partitions) -> partition; called for every record that names no partition."""

TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a bearer token that counts now; called for each new connection, in a thread."""

ACKS_ALL: Final = -1
PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, SSL)
COMPRESSION_TYPES: Final = ("none", "lz4", "zstd")
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
_MAX_INT: Final = 2**31 - 1
_HIGHEST: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """What all parts of a client share.

    `security_protocol` "SSL": TLS. `ssl_cafile` is the PEM file of the CA that signs the brokers (empty = the public CAs
    that gRPC brings), `ssl_certfile` and `ssl_keyfile` prove who this client is. They are read again for each new
    connection; the broker's certificate must hold the host name that is dialled.

    Who this client is may be said by a token too (`token`; `token_file`, read again for each new connection; or
    `token_provider`, a function that returns one, maybe awaitable), or by `username` with `password` or `password_file`.
    """

    bootstrap_servers: tuple[str, ...] = ()
    client_id: str = "oncelog-python"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    bootstrap_timeout_ms: int = 5_000
    """Until a client that has never reached the cluster says so, with what happened at each address; ms, 1 and up. Later calls
    have their own time-outs.
    """
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 250
    metadata_max_age_ms: int = 300_000
    metadata_attempt_timeout_ms: int = 2_000
    close_timeout_ms: int = 30_000
    security_protocol: str = PLAINTEXT
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    token_provider: TokenProvider | None = field(default=None, repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    otlp_endpoint: str = ""
    trace_sampler: str = ""
    trace_sampler_arg: float = 1.0

    def __post_init__(self) -> None:
        """Raises `ConfigError`."""
        _positive(self, "request_timeout_ms", "default_api_timeout_ms", "retry_backoff_ms", "metadata_max_age_ms")
        _positive(self, "metadata_attempt_timeout_ms", "close_timeout_ms", "bootstrap_timeout_ms")
        _at_least(self, "retry_backoff_max_ms", self.retry_backoff_ms)
        self._check_security()

    def _check_security(self) -> None:
        _one_of(self, "security_protocol", SECURITY_PROTOCOLS)
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
    """Of one producer."""

    acks: int | str = "all"
    enable_idempotence: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    linger_ms: int = 0
    batch_size: int = 1 << 20
    max_request_size: int = 8 << 20
    buffer_memory: int = 64 << 20
    max_block_ms: int = 60_000
    compression_type: str = "none"
    max_in_flight_requests_per_connection: int = 5
    retries: int = _MAX_INT
    partitioner: Partitioner | None = None
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigError`, or `InvalidRequiredAcksError`."""
        _positive(self, "transaction_timeout_ms", "delivery_timeout_ms", "batch_size", "max_request_size")
        _positive(self, "buffer_memory", "max_in_flight_requests_per_connection")
        _at_least(self, "linger_ms", 0)
        _at_least(self, "max_block_ms", 0)
        _at_least(self, "retries", 0)
        _at_least(self, "delivery_timeout_ms", self.linger_ms + 1)
        _at_least(self, "max_request_size", self.batch_size)
        _at_least(self, "buffer_memory", self.batch_size)
        _one_of(self, "compression_type", COMPRESSION_TYPES)
        self._check_idempotence()

    def _check_idempotence(self) -> None:
        if self.acks_number != ACKS_ALL and self.enable_idempotence:
            raise ConfigError("idempotence needs acks='all'; set enable_idempotence=False for less", acks=self.acks)
        if self.max_in_flight_requests_per_connection > 5 and self.enable_idempotence:
            raise ConfigError(
                "idempotence allows at most 5 requests in flight: the leader remembers 5 batches of a producer",
                max_in_flight_requests_per_connection=self.max_in_flight_requests_per_connection,
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("a transactional producer is idempotent: enable_idempotence=False contradicts it")

    @property
    def acks_number(self) -> int:
        """-1 for "all", as it stands in a request."""
        number = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}.get(str(self.acks))
        if number is None:
            raise InvalidRequiredAcksError('acks is none of 0, 1, "all"', given=self.acks)
        return number


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Of one consumer."""

    group_id: str | None = None
    auto_offset_reset: str = "latest"
    isolation_level: str = READ_COMMITTED
    enable_auto_commit: bool = False
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 8 << 20
    max_partition_fetch_bytes: int = 2 << 20
    max_buffered_bytes: int = 32 << 20
    max_uncompressed_batch_bytes: int = 64 << 20
    trace_consumer_parent: str = "link"
    check_crcs: bool = True
    skip_lost_transactions: bool = False
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigError`."""
        _positive(self, "max_poll_records", "fetch_max_bytes", "max_partition_fetch_bytes", "max_buffered_bytes")
        _positive(self, "max_uncompressed_batch_bytes")
        _at_least(self, "fetch_min_bytes", 0)
        _at_least(self, "fetch_max_wait_ms", 0)
        _one_of(self, "auto_offset_reset", ("latest", "earliest", "none"))
        _one_of(self, "isolation_level", (READ_COMMITTED, READ_UNCOMMITTED))
        _one_of(self, "trace_consumer_parent", ("link", "message"))
        if self.enable_auto_commit:
            raise ConfigError("enable_auto_commit comes with group membership; call commit() after your work")


def load(kind: type[C], given: Mapping[str, Any], also: Iterable[str] = ()) -> C:
    """A checked configuration of this kind. Raises `ConfigError` for unknown names and illegal values.

    `also`: names that the caller has taken out already, to be suggested too.
    """
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for typed, value in given.items():
        name = typed.replace(".", "_")
        if name not in known:
            raise ConfigError(f"unknown option `{typed}`{_suggestion(name, sorted({*known, *also}))}")
        if name in values:
            raise ConfigError(f"option `{name}` is given twice")
        values[name] = _coerce(name, value, known[name].default)
    return kind(**values)


def addresses(given: str | Sequence[str]) -> tuple[str, ...]:
    """Bootstrap addresses from "host:port,host:port" or a list. Raises `ConfigError`."""
    items = given.split(",") if isinstance(given, str) else list(given)
    found = tuple(item.strip() for item in items if item.strip())
    if not found:
        raise ConfigError("bootstrap_servers is empty; give host:port, or several")
    for item in found:
        if ":" not in item or not item.rpartition(":")[2].isdigit():
            raise ConfigError("a bootstrap address is host:port", given=item)
    return found


def _suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def _coerce(name: str, value: Any, default: Any) -> Any:
    """Text from properties files and environments becomes numbers and booleans; anything else stays."""
    if isinstance(value, str) and isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"`{name}` is true or false", given=value)
        return value.lower() == "true"
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"`{name}` is true or false", given=value)
        return value
    if isinstance(default, float):
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"`{name}` is a number", given=value) from error
    if isinstance(default, int):
        try:
            return int(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"`{name}` is a whole number", given=value) from error
    return value


def _positive(config: Any, *names: str) -> None:
    for name in names:
        _at_least(config, name, 1)


def _at_least(config: Any, name: str, lowest: int) -> None:
    value = getattr(config, name)
    if not lowest <= value <= _HIGHEST:
        limit = f"at least {lowest}" if value < lowest else f"at most {_HIGHEST}"
        raise ConfigError(f"`{name}` is {value}, and must be {limit}")


def _one_of(config: Any, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in allowed:
        raise ConfigError(f"`{name}` is {value!r}, and must be one of {', '.join(allowed)}")
