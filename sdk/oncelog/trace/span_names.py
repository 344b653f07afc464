"""Every name that stands in a span: span names, attribute names, values. Nowhere else does one occur.

The names are those of OpenTelemetry's semantic conventions 1.44 (messaging: development, RPC: release candidate); what
they have no word for begins with `oncelog.`. 64-bit ids are texts: JavaScript cannot show them as numbers.
"""

from __future__ import annotations

from typing import Final

# ---------------------------------------------------------------- remote calls

RPC_SYSTEM: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS_CODE: Final = "rpc.response.status_code"
"""Will be `rpc.status_code` in a later version of the conventions."""
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
GRPC: Final = "grpc"
CANCELLED: Final = "CANCELLED"

SERVER_ERRORS: Final = frozenset(
    ("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
)
"""gRPC statuses that are the server's failure; with any other the caller has asked for what cannot be."""

QUIET_METHODS: Final = frozenset(
    (
        "PartitionLeader.Fetch",
        "PartitionLeader.GetMetadata",
        "PartitionLeader.Ping",
        "PartitionLeader.Replicate",
        "PartitionLeader.ReplicaStatus",
        "PartitionLeader.ReportBroker",
        "Coordinator.RenewTransaction",
        "Channels.Receive",
    )
)
"""Calls that come all the time, by themselves: they make no trace of their own."""

UNTRACED_SERVICES: Final = ("/grpc.health.v1.Health/", "/grpc.reflection.")


def rpc_method(method: str) -> str:
    """`Service.Method` as the conventions name it; it is the span's name too."""
    service, _, name = method.partition(".")
    return f"oncelog.v1.{service}/{name}"


# ---------------------------------------------------------------- messaging

MESSAGING_SYSTEM: Final = "messaging.system"
ONCELOG: Final = "oncelog"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
SUBSCRIPTION: Final = "messaging.destination.subscription.name"
"""The channel."""
CLIENT_ID: Final = "messaging.client.id"
MESSAGE_COUNT: Final = "messaging.batch.message_count"

CREATE: Final = "create"
SEND: Final = "send"
POLL: Final = "poll"
PROCESS: Final = "process"
COMMIT: Final = "commit"
ACK: Final = "ack"
NACK: Final = "nack"
TOUCH: Final = "touch"
REJECT: Final = "reject"

_TYPES: Final = {
    CREATE: "create",
    SEND: "send",
    POLL: "receive",
    PROCESS: "process",
    **dict.fromkeys((COMMIT, ACK, NACK, TOUCH, REJECT), "settle"),
}

TRACEPARENT_HEADER: Final = "traceparent"


def messaging(operation: str, topic: str, **more: str | int) -> dict[str, str | int | float | bool]:
    """The attributes of a messaging span; `more`: `partition`, `group`, `channel`, `client_id`, `count`. Empty ones are left
    out.
    """
    found: dict[str, str | int | float | bool] = {
        MESSAGING_SYSTEM: ONCELOG,
        OPERATION_NAME: operation,
        OPERATION_TYPE: _TYPES[operation],
    }
    if topic:
        found[DESTINATION] = topic
    names = {
        "partition": PARTITION,
        "group": CONSUMER_GROUP,
        "channel": SUBSCRIPTION,
        "client_id": CLIENT_ID,
        "count": MESSAGE_COUNT,
    }
    for short, value in more.items():
        if value != "":
            found[names[short]] = value
    return found


def messaging_span(operation: str, topic: str) -> str:
    """Name of a messaging span."""
    return f"{operation} {topic}" if topic else operation


# ---------------------------------------------------------------- our own

TXN: Final = "txn"
TXN_COMMIT: Final = "txn commit"
TXN_ABORT: Final = "txn abort"
TXN_PARTICIPANT: Final = "txn participant"
TXN_MARKERS: Final = "txn.markers"
GROUP_COMMIT: Final = "group.commit"
LOG_APPEND: Final = "log.append"
REPLICATE: Final = "replicate"
SPARK_BATCH: Final = "spark micro-batch"
SPARK_TASK: Final = "spark task"
SPARK_COMMIT: Final = "spark commit"
SPARK_ABORT: Final = "spark abort"

TXN_ID: Final = "oncelog.txn.id"
TXN_NO: Final = "oncelog.txn.number"
TXN_OUTCOME: Final = "oncelog.txn.outcome"
TXN_PARTITIONS: Final = "oncelog.txn.partitions"
TXN_GROUPS: Final = "oncelog.txn.groups"
TXN_EPOCH: Final = "oncelog.txn.epoch"
PRODUCER_ID: Final = "oncelog.producer.id"
OFFSET: Final = "oncelog.offset"
DELIVERIES: Final = "oncelog.deliveries"
APPEND_BYTES: Final = "oncelog.append.bytes"
APPEND_BATCHES: Final = "oncelog.append.batches"
LEADER_EPOCH: Final = "oncelog.leader.epoch"
SHARD: Final = "oncelog.shard"
COMMAND: Final = "oncelog.command"
COMMANDS: Final = "oncelog.group.commands"
RECORDS: Final = "oncelog.group.records"
MARKERS: Final = "oncelog.markers"
FOLLOWERS: Final = "oncelog.followers"
SPARK_APP_ID: Final = "oncelog.spark.app_id"
SPARK_BATCH_ID: Final = "oncelog.spark.batch_id"
SPARK_TASK_ATTEMPT: Final = "oncelog.spark.task_attempt"
SPARK_TASKS: Final = "oncelog.spark.tasks"
ROWS: Final = "oncelog.rows"
RESULT: Final = "oncelog.result"
