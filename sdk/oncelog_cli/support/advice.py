"""Advice about each error, for users whose program or job met it: `oncelog explain`, and docs/reference/errors.md.

Rule 1: every code has a sentence (a test asks). It comes behind what the error's action says already, for which the classes in
        `oncelog.errors` stand.
Rule 2: where what the action says does not fit, `INSTEAD` says all there is to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncelog.error_codes import ErrorAction
from oncelog.error_codes import ErrorCode as C

WHAT_TO_DO: Final = {
    ErrorAction.RETRY: "Send the same request again after a pause; the SDK does so by itself until its deadline.",
    ErrorAction.REFRESH: "Ask the cluster again who is in charge, then send the same request there; the SDK does so itself.",
    ErrorAction.REJOIN: "Join the consumer group again, then go on from the committed offsets.",
    ErrorAction.ABORT: "Abort the transaction (`async with` does), then go on with a new one.",
    ErrorAction.FATAL: "Close this producer or client; nothing more can be done with it. A new one may go on.",
    ErrorAction.CALLER: "Do not repeat it as it is: correct the request, the option or the state that the message names.",
}
INSTEAD: Final = {
    C.CLUSTER_UNREACHABLE: (
        "Check the address: host and port in bootstrap_servers (--bootstrap-servers, ONCELOG_BOOTSTRAP_SERVERS), and that "
        "brokers run there and can be reached from here. Check TLS: security_protocol and ssl_cafile must be as the brokers "
        "listen. The message says what happened at each address; bootstrap_timeout_ms is how long the first contact may take."
    ),
    C.DELIVERY_TIMED_OUT: (
        "The message begins with what stood in the way, and its __cause__ is that error: explain that one. With "
        "written=false the records were not written, and may be sent again; else their outcome is unknown."
    ),
}
"""Where the advice for the action would not fit."""

_ASK_HEALTH: Final = "Ask `oncelog cluster health` what is missing."
_ITS_OWN: Final = "Among servers, or handled by the client; if it reaches you, report it."
_NEXT: Final = "Abort; begin the next transaction."
_RIGHTS: Final = "Ask `oncelog acl check` which rule says no, and have it changed."

ADVICE: Final[Mapping[C, str]] = {
    C.OFFSET_OUT_OF_RANGE: "Seek to an offset that is there, or set `auto_offset_reset`; for Spark see `failOnDataLoss`.",
    C.CORRUPT_MESSAGE: "Read from another offset; ask `oncelog log dump` on the brokers which replica is sound.",
    C.UNKNOWN_TOPIC_OR_PARTITION: "Create the topic, or correct its name.",
    C.LEADER_NOT_AVAILABLE: _ASK_HEALTH,
    C.NOT_LEADER_OR_FOLLOWER: _ITS_OWN,
    C.REQUEST_TIMED_OUT: f"Give it more time, or find out who does not answer. {_ASK_HEALTH}",
    C.MESSAGE_TOO_LARGE: "Make it smaller, or raise `max_message_bytes` of the topic and `max_request_size` of the producer.",
    C.STALE_CONTROLLER_EPOCH: _ITS_OWN,
    C.OFFSET_METADATA_TOO_LARGE: "Shorten the note that is committed with the offset.",
    C.COORDINATOR_LOAD_IN_PROGRESS: "Wait: a new owner reads the shard's log.",
    C.COORDINATOR_NOT_AVAILABLE: f"Wait, or start a coordinator. {_ASK_HEALTH}",
    C.NOT_COORDINATOR: _ITS_OWN,
    C.INVALID_TOPIC: "Choose another name; topics that begin with two underscores are the cluster's.",
    C.RECORD_LIST_TOO_LARGE: "Make `batch_size` smaller, or the topic's `segment_bytes` larger.",
    C.NOT_ENOUGH_REPLICAS: "Bring brokers back, or lower the topic's `min_insync_replicas` if you can afford it.",
    C.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "An idempotent producer asks until it knows; any other may write it twice.",
    C.INVALID_REQUIRED_ACKS: 'Set `acks` to 0, 1 or "all".',
    C.ILLEGAL_GENERATION: _NEXT,
    C.INVALID_GROUP_ID: "Choose another `group_id`.",
    C.UNKNOWN_MEMBER_ID: _NEXT,
    C.TOPIC_AUTHORIZATION_FAILED: _RIGHTS,
    C.GROUP_AUTHORIZATION_FAILED: _RIGHTS,
    C.CLUSTER_AUTHORIZATION_FAILED: _RIGHTS,
    C.INVALID_TIMESTAMP: "Give a time in ms since 1970.",
    C.UNSUPPORTED_VERSION: "Upgrade the older side: versions that follow each other work together.",
    C.TOPIC_ALREADY_EXISTS: "Go on with it, or create with `if_not_exists=True`.",
    C.INVALID_PARTITIONS: "Choose another number; a topic's partitions can only become more.",
    C.INVALID_REPLICATION_FACTOR: "Choose at most as many replicas as there are brokers, or start brokers.",
    C.INVALID_REPLICA_ASSIGNMENT: "Name different brokers that `oncelog cluster info` shows.",
    C.INVALID_CONFIG: "Correct the option that the message names; see the pages of options.",
    C.NOT_CONTROLLER: _ITS_OWN,
    C.INVALID_REQUEST: "Correct what the message names; with this SDK, report it.",
    C.UNSUPPORTED_FOR_MESSAGE_FORMAT: "Send what this version understands; with this SDK, report it.",
    C.POLICY_VIOLATION: "Stay below the limit that the message names, or have it raised.",
    C.OUT_OF_ORDER_SEQUENCE_NUMBER: f"{_NEXT} Outside of transactions the producer goes on under a new id.",
    C.DUPLICATE_SEQUENCE_NUMBER: "Make a new producer, and report it: two processes may use one producer id.",
    C.INVALID_PRODUCER_EPOCH: f"{_NEXT} If another process has this transactional id, end one of the two.",
    C.INVALID_TXN_STATE: "Make a new producer; look at `oncelog txn describe`.",
    C.INVALID_PRODUCER_ID_MAPPING: _NEXT,
    C.INVALID_TRANSACTION_TIMEOUT: "Lower `transaction_timeout_ms`, or raise the coordinators' `transaction_max_timeout_ms`.",
    C.CONCURRENT_TRANSACTIONS: "Wait; if it lasts, `oncelog txn describe` says what is still running.",
    C.TRANSACTION_COORDINATOR_FENCED: _ITS_OWN,
    C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"{_RIGHTS} Or hand over the `session_token` of the session that you speak for.",
    C.STORAGE_ERROR: "Look at that broker's disk and log.",
    C.AUTHENTICATION_FAILED: "Correct token, password or certificate.",
    C.UNKNOWN_PRODUCER_ID: f"{_NEXT} Outside of transactions the producer goes on under a new id.",
    C.NON_EMPTY_GROUP: "Stop the members of the group, or wait until their sessions have ended.",
    C.REASSIGNMENT_IN_PROGRESS: "Wait, or cancel it: `oncelog partition moves`.",
    C.TOKEN_EXPIRED: "See that `token_file` or `token_provider` gives a new token in time.",
    C.FENCED_LEADER_EPOCH: _ITS_OWN,
    C.UNKNOWN_LEADER_EPOCH: _ITS_OWN,
    C.UNSUPPORTED_COMPRESSION: "Use none, lz4 or zstd.",
    C.STALE_BROKER_EPOCH: _ITS_OWN,
    C.OFFSET_NOT_AVAILABLE: "Wait: a new leader learns how far its log is replicated.",
    C.GROUP_MAX_SIZE_REACHED: "Start fewer members, or raise the coordinators' `group_max_size`.",
    C.FENCED_INSTANCE_ID: "Let the newer one work: give each process a `group_instance_id` of its own.",
    C.GROUP_SUBSCRIBED_TO_TOPIC: "Stop the members that read the topic, or have them subscribe to others.",
    C.INVALID_RECORD: "Correct the record; with this SDK and well-formed rows, report it.",
    C.UNSTABLE_OFFSET_COMMIT: "Wait until that transaction ends; `oncelog group describe` shows it.",
    C.THROTTLING_QUOTA_EXCEEDED: "Send less, or have the quota raised: `oncelog quota list`.",
    C.PRODUCER_FENCED: "Let the newer one work. If there should be none, find who uses the same transactional id.",
    C.INELIGIBLE_REPLICA: _ITS_OWN,
    C.FENCED_MEMBER_EPOCH: f"{_NEXT} A consumer joins again under a new member id.",
    C.UNRELEASED_INSTANCE_ID: "Stop the other process with this `group_instance_id`, or wait until its session has ended.",
    C.UNSUPPORTED_ASSIGNOR: "Choose `range`, `round_robin` or `sticky`.",
    C.STALE_MEMBER_EPOCH: f"{_NEXT} The partition has another owner: leave its offsets to that one.",
    C.TRANSACTION_ABORTABLE: _NEXT,
    C.INVALID_REGULAR_EXPRESSION: "Write the pattern with `*`, `?`, `[a-z]` and `{a,b}`; see docs/internals/groups.md.",
    C.UNKNOWN_ERROR: "Look at the server's log and report it.",
    C.NETWORK_ERROR: "Look at network, addresses and certificates; the message says what the link said.",
    C.TXN_ENDED: "Nothing to do for that transaction; `client.get_outcome` says how it ended. Begin another.",
    C.TXN_ABORTED: "Do its work again in the next transaction.",
    C.OUTCOME_FORGOTTEN: "Read the topic (read_committed) to see whether the records are there.",
    C.TRANSACTION_DATA_LOSS: "Restore what is lost from its source; then read on with `skip_lost_transactions=True`.",
    C.BATCH_ROLLED_BACK: "See Spark's option `onRolledBackBatch`; or write under another application id.",
    C.REPLAY_MISMATCH: "Make the batch repeatable, or see Spark's option `onReplayMismatch`.",
    C.UNKNOWN_PARTICIPANT: "Let the batch run again; hand in only results of this transaction's own participants.",
    C.WRONG_CLUSTER: "Correct `bootstrap_servers`: its addresses belong to more than one cluster.",
    C.RESOURCE_EXHAUSTED: "Send less at once, or give the server more of what the message names.",
    C.ID_SPACE_EXHAUSTED: "Make a new cluster; this one has given out every id.",
    C.ALLOCATOR_ROLLED_BACK: "Follow the steps for a restored etcd in the guide for operations.",
    C.METADATA_UNAVAILABLE: "Bring etcd back, a majority of its members; or see that what `jwt_jwks` names can be read.",
    C.MISDIRECTED_BATCH: _ITS_OWN,
    C.FORKED_CLIENT: "Make the client after the fork, or start processes with spawn: docs/processes.md tells how, also with "
    "gunicorn, Celery and Airflow.",
    C.BUFFER_EXHAUSTED: "Wait for deliveries, or raise `buffer_memory` or `max_block_ms`; find out why brokers are slow.",
    C.COMMIT_OUTCOME_UNKNOWN: "Call `commit()` again; or ask `client.get_outcome` later.",
    C.OFFSET_COMMIT_STALE: "Nothing: a newer commit counts.",
    C.SHUTTING_DOWN: "Wait: others take over.",
    C.ILLEGAL_STATE: "Correct the order of calls; the message says what is allowed.",
    C.PROCESSING: "Mend what the cause says about this record, or give `on_error` to leave it out, and start again.",
    C.UNKNOWN_CHANNEL: "Create it with `oncelog channel create`, or start a worker, which does; see what there is with "
    "`oncelog channel list`.",
    C.CHANNEL_ALREADY_EXISTS: "Use it as it is, change it with `oncelog channel alter`, or choose another name.",
    C.NOT_OWNER: "Nothing for this record: it is settled, or another worker has it. Settle records sooner, call `touch()`, or "
    "raise the channel's `ack_wait_ms`.",
    C.INVALID_DELAY: "Give a time within a year from now; without a delay the record is visible at once.",
    C.NOT_SCHEDULED: "Nothing: the record was delivered or cancelled before.",
    C.DRAINING_ELSEWHERE: "Wait for the other drain to end, or cancel it.",
    C.INTERNAL_ERROR: "Report it, with the server's log.",
    C.INVALID_RESPONSE: "If it lasts, a server is broken, or something before it changes bytes: find out which.",
}


def what_to_do(code: C, action: ErrorAction) -> str:
    """The whole advice for an error."""
    return INSTEAD.get(code) or f"{WHAT_TO_DO[action]} {ADVICE[code]}"
