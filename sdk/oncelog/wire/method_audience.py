"""The audience of each remote method: clients, or only the cluster's own services. One row per method.

Rule 1: where a process has a listener for clients, it serves there what stands in `CLIENT`, and nothing else.
Rule 2: every method has a row here, and only one (a test); what has none is refused to clients.
"""

from __future__ import annotations

from typing import Final

from oncelog.wire import methods

CLIENT: Final[frozenset[str]] = frozenset(
    spec.name
    for spec in (
        methods.PRODUCE,
        methods.FETCH,
        methods.PRODUCE_RECORDS,
        methods.FETCH_RECORDS,
        methods.LIST_OFFSETS,
        methods.OFFSET_FOR_LEADER_EPOCH,
        methods.GET_PRODUCER_STATE,  # a producer settles an unknown outcome with it
        methods.DESCRIBE_PRODUCERS,
        methods.DELETE_RECORDS,
        methods.CANCEL_DELAYED,
        methods.DESCRIBE_DELAYED,
        methods.GET_METADATA,
        methods.CREATE_TOPIC,
        methods.DELETE_TOPIC,
        methods.ALTER_TOPIC,
        methods.DESCRIBE_TOPIC_CONFIGS,
        methods.DESCRIBE_PARTITIONS,
        methods.DRAIN_BROKER,  # operators come to the clients' door too
        methods.DRAIN_COORDINATOR,
        methods.REASSIGN_PARTITIONS,
        methods.LIST_REASSIGNMENTS,
        methods.TRANSFER_LEADERSHIP,
        methods.SURVEY_REPLICAS,
        methods.ELECT_UNCLEAN,
        methods.DECOMMISSION_BROKERS,
        methods.CREATE_ACLS,
        methods.DELETE_ACLS,
        methods.LIST_ACLS,
        methods.CHECK_ACL,
        methods.ALTER_USER,
        methods.DELETE_USER,
        methods.LIST_USERS,
        methods.ALTER_QUOTAS,
        methods.LIST_QUOTAS,
        methods.DESCRIBE_QUOTA,
        methods.CREATE_CHANNEL,
        methods.ALTER_CHANNEL,
        methods.DELETE_CHANNEL,
        methods.LIST_CHANNELS,
        methods.RECEIVE,
        methods.SETTLE,
        methods.CLAIM,
        methods.DESCRIBE_CHANNEL,
        methods.SEEK_CHANNEL,
        methods.INIT_PRODUCER_ID,
        methods.ENROL_PARTITIONS,  # producers enrol ahead
        methods.END_TRANSACTION,
        methods.GET_OUTCOME,
        methods.JOIN_TRANSACTION,
        methods.RENEW_TRANSACTION,
        methods.COMMIT_TRANSACTION,
        methods.ABORT_TRANSACTION,
        methods.COMMIT_OFFSETS,
        methods.FETCH_OFFSETS,
        methods.SEND_OFFSETS,
        methods.GROUP_HEARTBEAT,
        methods.LIST_TRANSACTIONS,
        methods.DESCRIBE_TRANSACTION,
        methods.FORCE_ABORT,
        methods.LIST_GROUPS,
        methods.DESCRIBE_GROUP,
        methods.DELETE_OFFSETS,
    )
)
INTERNAL: Final[frozenset[str]] = frozenset(
    spec.name
    for spec in (
        methods.REPLICATE,
        methods.WRITE_TXN_MARKERS,
        methods.SYNC_REPLICA,
        methods.REPORT_BROKER,
        methods.PING,
        methods.REPLICA_STATUS,
        methods.RESOLVE_TRANSACTION,
        methods.WRITE_GROUP_MARKERS,
        methods.OPEN_CHANNEL_PARTITION,
        methods.WRITE_CHANNEL_STATE,
        methods.SEND_CHANNEL_ACKS,
        methods.ALLOCATE_PRODUCER_IDS,
    )
)
