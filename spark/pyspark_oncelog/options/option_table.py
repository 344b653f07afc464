"""The table of options: their meaning, their default, and their name in Spark's Kafka source.

Rule 1: an option exists because it stands here; `read_write_options` reads the names, docs/reference/spark.md is written from
        all of it.
Rule 2: `default` is text that may be given as it stands and changes nothing; empty where the option has no such text (a test
        parses each). Illegal values are the business of `read_write_options`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Option(NamedTuple):
    """One option. `kafka`: its name in Spark's Kafka source or sink, empty where there is none."""

    meaning: str
    default: str = ""
    kafka: str = ""


CONNECTION: Final[dict[str, Option]] = {
    "bootstrapServers": Option(
        "Addresses of brokers, host:port, with commas between them; required.", "", "kafka.bootstrap.servers"
    ),
    "requestTimeoutMs": Option(
        "How long a call to the cluster may take, all its tries included.", "60000", "kafka.default.api.timeout.ms"
    ),
    "clientId": Option(
        "The name of the job's clients, told to brokers and shown in traces.", "spark", "kafka.client.id"
    ),
    "securityProtocol": Option("PLAINTEXT, or SSL for TLS.", "PLAINTEXT", "kafka.security.protocol"),
    "sslCafile": Option(
        "The PEM file of the CA that signs the brokers, on the driver and on every worker; empty means the public CAs.",
        "",
        "kafka.ssl.truststore.location",
    ),
    "sslCertfile": Option(
        "The PEM certificate that proves who the job is; given together with `sslKeyfile`.",
        "",
        "kafka.ssl.keystore.certificate.chain",
    ),
    "sslKeyfile": Option("The PEM key of `sslCertfile`.", "", "kafka.ssl.keystore.key"),
    "token": Option("A bearer token that says who the job is; excludes `tokenFile` and `username`."),
    "tokenFile": Option("A file with a bearer token, on the driver and on every worker."),
    "username": Option("The user whose password is given.", "", "kafka.sasl.jaas.config"),
    "password": Option("The password of `username`.", "", "kafka.sasl.jaas.config"),
    "passwordFile": Option("A file with the password of `username`, on the driver and on every worker."),
    "otlpEndpoint": Option("Where traces of a write go, as http://host:4317; empty means nowhere."),
    "traceSampler": Option("Which micro-batches of a write are recorded.", "parentbased_always_on"),
    "traceSamplerArg": Option("The share of micro-batches that a ratio sampler records.", "1"),
}
"""For reads and writes."""

SOURCE: Final[dict[str, Option]] = {
    "subscribe": Option(
        "Topics to read, with commas between them; one of `subscribe`, `subscribePattern` and `assign` is given.",
        "",
        "subscribe",
    ),
    "subscribePattern": Option(
        "A regular expression (Python's); every topic whose whole name matches is read.", "", "subscribePattern"
    ),
    "assign": Option('Partitions to read, as `{"orders":[0,1]}`.', "", "assign"),
    "startingOffsets": Option(
        "Where a new query begins: `earliest`, `latest` (streams alone), or offsets per partition as JSON, with -2 for "
        "earliest and -1 for latest; partitions that the JSON does not name begin at earliest. Left out it is `latest` for a "
        "stream and `earliest` for a batch.",
        "",
        "startingOffsets",
    ),
    "startingTimestamp": Option(
        "Where a new query begins in every partition, as ms since 1970; beats the other two. It begins with the whole batch, "
        "as written, that has a record at or after the time, so some from before it are read too.",
        "",
        "startingTimestamp",
    ),
    "startingOffsetsByTimestamp": Option(
        "Where a new query begins, as JSON with ms since 1970 per partition; beats `startingOffsets`.",
        "",
        "startingOffsetsByTimestamp",
    ),
    "startingOffsetsByTimestampStrategy": Option(
        "What happens where no record is at or after that time: the query fails, or begins at the end.",
        "error",
        "startingOffsetsByTimestampStrategy",
    ),
    "endingOffsets": Option(
        "Where a batch read ends: `latest`, or offsets per partition as JSON, with -1 for latest.",
        "latest",
        "endingOffsets",
    ),
    "endingTimestamp": Option(
        "Where a batch read ends in every partition, as ms since 1970; beats the other two. It ends before the whole batch, as "
        "written, that has a record at or after the time.",
        "",
        "endingTimestamp",
    ),
    "endingOffsetsByTimestamp": Option(
        "Where a batch read ends, as JSON with ms since 1970 per partition; beats `endingOffsets`.",
        "",
        "endingOffsetsByTimestamp",
    ),
    "failOnDataLoss": Option(
        "Whether the query fails when records that it has to read are gone; otherwise it warns and goes on.",
        "true",
        "failOnDataLoss",
    ),
    "maxOffsetsPerTrigger": Option(
        "The most offsets of one micro-batch, shared in proportion to each partition's lag, with one for each at least; left "
        "out, no limit.",
        "",
        "maxOffsetsPerTrigger",
    ),
    "minOffsetsPerTrigger": Option(
        "A micro-batch waits for so many offsets, but not longer than `maxTriggerDelay`; left out, for none.",
        "",
        "minOffsetsPerTrigger",
    ),
    "maxTriggerDelay": Option(
        "How long a micro-batch waits for `minOffsetsPerTrigger`, as 90s, 15m or 2h.", "15m", "maxTriggerDelay"
    ),
    "minPartitions": Option(
        "About how many tasks there are at least, if there are rows for them; left out, no minimum.",
        "",
        "minPartitions",
    ),
    "maxRecordsPerPartition": Option("The most offsets of one task; left out, no limit.", "", "maxRecordsPerPartition"),
    "minRowsPerTask": Option("Small ranges are put together until a task has so many offsets.", "50000"),
    "includeHeaders": Option("Whether rows have a column `headers`.", "false", "includeHeaders"),
    "isolation": Option(
        "Whether records of open and aborted transactions are read too.", "read_committed", "kafka.isolation.level"
    ),
    "clientRack": Option(
        "The rack in which the executors stand: they read from an in-sync replica there instead of the leader. Left out, each "
        "takes ONCELOG_CLIENT_RACK of its own environment.",
        "",
        "kafka.client.rack",
    ),
    "commitGroup": Option(
        "A group to which a stream commits what it has read, for lag tools; it is never read back. One that no "
        "consumers are members of. Empty means none."
    ),
}
"""For reads."""

SINK: Final[dict[str, Option]] = {
    "topic": Option("The topic of all rows; empty means that the column `topic` names it.", "", "topic"),
    "createTopicPartitions": Option(
        "Creates a topic that does not exist, with so many partitions; left out, an unknown topic is an error."
    ),
    "deliveryGuarantee": Option(
        "`exactly_once`: one transaction for each batch. `at_least_once`: visible as it is written, and again after a retry.",
        "exactly_once",
    ),
    "transactionalId": Option(
        "The name of the query's transactions; empty means a name made from Spark's query id, or for batch jobs from "
        "`txnAppId` and `topic`.",
        "",
        "kafka.transactional.id",
    ),
    "txnAppId": Option(
        "With `txnVersion` and `topic`, the name of a batch write: a run with the same three changes nothing. For "
        "`foreachBatch` and jobs."
    ),
    "txnVersion": Option("The number of a batch write under `txnAppId`; give the batch id of `foreachBatch`."),
    "partitioner": Option(
        "Which hash of the key names the partition of a row that names none: `fnv1a`, or `murmur2`, which is Kafka's; rows "
        "without a key are spread batch by batch.",
        "fnv1a",
        "kafka.partitioner.class",
    ),
    "compressionType": Option("How batches are compressed.", "zstd", "kafka.compression.type"),
    "batchBytes": Option(
        "Bytes of rows of one partition that travel as one message, before compression; a topic with a smaller "
        "`max_message_bytes` wants it smaller.",
        "3145728",
        "kafka.batch.size",
    ),
    "maxRequestBytes": Option(
        "The most bytes of one row, and of one request; a topic takes a larger row only if its `max_message_bytes` is raised, "
        "too.",
        "8388608",
        "kafka.max.request.size",
    ),
    "leaseMs": Option("A transaction that no task has renewed for so long is aborted: the job is gone.", "60000"),
    "maxDurationMs": Option(
        "A transaction that is open for longer is aborted.", "3600000", "kafka.transaction.timeout.ms"
    ),
    "onRolledBackBatch": Option(
        "What happens to a batch below the last committed one, because the checkpoint went back: the query fails, or the "
        "batch is skipped.",
        "fail",
    ),
    "onReplayMismatch": Option(
        "What happens when a batch that is committed comes again with another number of rows: the query fails, or what is "
        "committed is kept.",
        "fail",
    ),
    "onOverwrite": Option(
        "What a write in mode overwrite or complete does: it fails, or each complete result is appended.", "fail"
    ),
}
"""For writes."""
