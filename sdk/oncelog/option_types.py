"""What type checkers know of `**config`: a misspelt or ill-typed option is found before the program runs.

Written by scripts/gen_options.py from `oncelog.config`, where meanings, defaults and ranges stand; not to be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypedDict

from oncelog.value_types import ReadKey, ReadValue, SentKey, SentValue

if TYPE_CHECKING:
    from oncelog.config import Partitioner, TokenProvider
    from oncelog.value_types import Deserializer, Serializer


class ClientOptions(TypedDict, total=False):
    """Of `Client`; see `oncelog.ClientConfig`."""

    request_timeout_ms: int
    default_api_timeout_ms: int
    bootstrap_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_attempt_timeout_ms: int
    close_timeout_ms: int
    security_protocol: str
    ssl_cafile: str
    ssl_certfile: str
    ssl_keyfile: str
    token: str
    token_file: str
    token_provider: TokenProvider | None
    username: str
    password: str
    password_file: str
    otlp_endpoint: str
    trace_sampler: str
    trace_sampler_arg: float


class ParticipantOptions(ClientOptions, Generic[SentKey, SentValue], total=False):
    """Of `Client.join_transaction`; see `oncelog.ProducerConfig`. Options of the client are for this one alone."""

    client_id: str
    acks: int | str
    enable_idempotence: bool
    transaction_timeout_ms: int
    delivery_timeout_ms: int
    linger_ms: int
    batch_size: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    compression_type: str
    max_in_flight_requests_per_connection: int
    retries: int
    partitioner: str | Partitioner
    key_serializer: Serializer[SentKey] | None
    value_serializer: Serializer[SentValue] | None


class ProducerOptions(ParticipantOptions[SentKey, SentValue], total=False):
    """Of `Client.producer`; see `oncelog.ProducerConfig`."""

    delivery: str
    transactional_id: str | None


WritingOptions = ProducerOptions[Any, Any]
"""`ProducerOptions` with keys and values of any type."""


class ConsumerOptions(ClientOptions, Generic[ReadKey, ReadValue], total=False):
    """Of `Client.consumer`; see `oncelog.ConsumerConfig`. Options of the client are for this one alone."""

    client_id: str
    delivery: str
    group_id: str | None
    group_instance_id: str
    group_remote_assignor: str
    client_rack: str
    max_poll_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_buffered_bytes: int
    max_uncompressed_batch_bytes: int
    trace_consumer_parent: str
    check_crcs: bool
    skip_lost_transactions: bool
    expired: str
    key_deserializer: Deserializer[ReadKey] | None
    value_deserializer: Deserializer[ReadValue] | None


ReadingOptions = ConsumerOptions[Any, Any]
"""`ConsumerOptions` with keys and values of any type."""


class WorkerOptions(TypedDict, Generic[ReadKey, ReadValue], total=False):
    """Of `Client.worker`; see `oncelog.WorkerConfig`. Options of the client are for this one alone."""

    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    bootstrap_timeout_ms: int
    metadata_max_age_ms: int
    metadata_attempt_timeout_ms: int
    close_timeout_ms: int
    security_protocol: str
    ssl_cafile: str
    ssl_certfile: str
    ssl_keyfile: str
    token: str
    token_file: str
    token_provider: TokenProvider | None
    username: str
    password: str
    password_file: str
    otlp_endpoint: str
    trace_sampler: str
    trace_sampler_arg: float
    max_in_flight: int
    start: str | int
    create: bool
    auto_touch: bool
    expired: str
    key_deserializer: Deserializer[ReadKey] | None
    value_deserializer: Deserializer[ReadValue] | None
    undecodable: str
    max_bytes: int
    max_uncompressed_batch_bytes: int
    trace_consumer_parent: str
    ack_wait_ms: int | None
    max_deliveries: int | None
    dead_letter_topic: str | None
    retry_backoff_ms: int | None
    retry_backoff_max_ms: int | None
    order_by_key: bool | None
    ephemeral: bool | None
    max_unsettled: int | None


class ChannelOptionsGiven(TypedDict, total=False):
    """Of `create_channel` and `alter_channel`; see `oncelog.WorkerConfig`."""

    ack_wait_ms: int
    max_deliveries: int
    dead_letter_topic: str
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    order_by_key: bool
    ephemeral: bool
    max_unsettled: int
