"""oncelog: a partitioned, replicated, transactional log; this is its client SDK.

    async with oncelog.Client("broker-0:9092") as client:
        async with client.producer(transactional_id="billing-7") as producer:
            async with producer.transaction() as txn:          # commits on exit, aborts on error
                await txn.send("orders", key="42", value="...")
        async with client.consumer("orders", auto_offset_reset="earliest") as consumer:
            async for record in consumer:                      # read_committed by default
                print(record.offset, record.value)

Without an event loop: `oncelog.SyncClient`, the same names without `await`.

Rule: names are loaded when they are first used; `import oncelog` alone loads neither grpc nor pyarrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog import errors, sync
    from oncelog.client.admin.admin import ClusterHealth, PartitionOffsets, TopicDescription, TransactionDescription
    from oncelog.client.client import Client, TransactionOutcome
    from oncelog.client.consume.consumer import Consumer
    from oncelog.client.consume.fetched_records import ConsumerRecord, Records
    from oncelog.client.consume.offsets import GroupMetadata, OffsetAndMetadata
    from oncelog.client.once.in_log import OnceInLog
    from oncelog.client.once.log_work import LogWork
    from oncelog.client.once.once import Once
    from oncelog.client.once.refusals import LeaseHeldError, OnceTableError, OnceTopicError, WorkFencedError
    from oncelog.client.once.work import Work
    from oncelog.client.process.processor import Processed
    from oncelog.client.produce.delivery import BatchDelivery, Delivery, RecordMetadata, WrittenRange
    from oncelog.client.produce.producer import Producer
    from oncelog.client.produce.transactions.participant import BatchCommit, Participant, ParticipantResult
    from oncelog.client.produce.transactions.shared_batch import SharedBatch
    from oncelog.client.produce.transactions.transaction import Transaction
    from oncelog.client.produce.writer import Message
    from oncelog.client.work.message import ChannelMessage
    from oncelog.client.work.worker import Worker
    from oncelog.config import ClientConfig, ConsumerConfig, ProducerConfig, WorkerConfig
    from oncelog.errors import (
        AbortableTransactionError,
        CallerError,
        ClusterUnreachableError,
        CommitOutcomeUnknownError,
        ConfigError,
        DeliveryTimedOutError,
        ErrorCode,
        FatalProducerError,
        ForkedClientError,
        IllegalStateError,
        NotOwnerError,
        OncelogError,
        OutcomeForgottenError,
        ProcessingError,
        ProducerFencedError,
        RetriableError,
        TransactionDataLossError,
        TxnAbortedError,
        UnknownChannelError,
        UnknownTopicError,
    )
    from oncelog.sync import Client as SyncClient
    from oncelog.types import TopicPartition

_HOMES = {
    "oncelog.client.admin.admin": ("ClusterHealth", "PartitionOffsets", "TopicDescription", "TransactionDescription"),
    "oncelog.client.client": ("Client", "TransactionOutcome"),
    "oncelog.client.consume.consumer": ("Consumer",),
    "oncelog.client.produce.delivery": ("BatchDelivery", "Delivery", "RecordMetadata", "WrittenRange"),
    "oncelog.client.consume.fetched_records": ("ConsumerRecord", "Records"),
    "oncelog.client.consume.offsets": ("GroupMetadata", "OffsetAndMetadata"),
    "oncelog.client.process.processor": ("Processed",),
    "oncelog.client.produce.transactions.participant": ("BatchCommit", "Participant", "ParticipantResult"),
    "oncelog.client.once.in_log": ("OnceInLog",),
    "oncelog.client.once.log_work": ("LogWork",),
    "oncelog.client.once.once": ("Once",),
    "oncelog.client.once.refusals": ("LeaseHeldError", "OnceTableError", "OnceTopicError", "WorkFencedError"),
    "oncelog.client.once.work": ("Work",),
    "oncelog.client.produce.producer": ("Producer",),
    "oncelog.client.produce.transactions.shared_batch": ("SharedBatch",),
    "oncelog.client.produce.transactions.transaction": ("Transaction",),
    "oncelog.client.produce.writer": ("Message",),
    "oncelog.client.work.message": ("ChannelMessage",),
    "oncelog.client.work.worker": ("Worker",),
    "oncelog.config": ("ClientConfig", "ConsumerConfig", "ProducerConfig", "WorkerConfig"),
    "oncelog.errors": (
        "AbortableTransactionError",
        "CallerError",
        "ClusterUnreachableError",
        "CommitOutcomeUnknownError",
        "ConfigError",
        "DeliveryTimedOutError",
        "ErrorCode",
        "FatalProducerError",
        "ForkedClientError",
        "IllegalStateError",
        "NotOwnerError",
        "OncelogError",
        "OutcomeForgottenError",
        "ProcessingError",
        "ProducerFencedError",
        "RetriableError",
        "TransactionDataLossError",
        "TxnAbortedError",
        "UnknownChannelError",
        "UnknownTopicError",
    ),
    "oncelog.types": ("TopicPartition",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_RENAMED = {"SyncClient": ("oncelog.sync", "Client")}
_MODULES = ("errors", "sync")

__version__ = "0.1.0"
__all__ = [
    "Client",
    "SyncClient",
    "ClientConfig",
    "ProducerConfig",
    "ConsumerConfig",
    "WorkerConfig",
    "Producer",
    "Transaction",
    "Message",
    "Delivery",
    "BatchDelivery",
    "RecordMetadata",
    "WrittenRange",
    "Consumer",
    "ConsumerRecord",
    "Records",
    "Worker",
    "ChannelMessage",
    "TopicPartition",
    "OffsetAndMetadata",
    "GroupMetadata",
    "TransactionOutcome",
    "Processed",
    "Once",
    "Work",
    "OnceInLog",
    "LogWork",
    "SharedBatch",
    "Participant",
    "ParticipantResult",
    "BatchCommit",
    "ClusterHealth",
    "TopicDescription",
    "PartitionOffsets",
    "TransactionDescription",
    "errors",
    "sync",
    "OncelogError",
    "ErrorCode",
    "RetriableError",
    "AbortableTransactionError",
    "FatalProducerError",
    "CallerError",
    "ClusterUnreachableError",
    "CommitOutcomeUnknownError",
    "ConfigError",
    "DeliveryTimedOutError",
    "ForkedClientError",
    "IllegalStateError",
    "LeaseHeldError",
    "NotOwnerError",
    "OnceTableError",
    "OnceTopicError",
    "OutcomeForgottenError",
    "ProcessingError",
    "ProducerFencedError",
    "TransactionDataLossError",
    "TxnAbortedError",
    "UnknownChannelError",
    "UnknownTopicError",
    "WorkFencedError",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"oncelog.{name}")
    module, attribute = _RENAMED.get(name) or (_HOME_OF.get(name), name)
    if module is None:
        raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
