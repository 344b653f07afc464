"""The names by which the coordinator knows a batch, its run and one attempt to write it. Pure.

Rule 1: a streaming batch is named by what Spark tells its tasks: query id, run id, batch id. Spark does not tell driver
        code these names, so ownership is taken by the first task that joins.
Rule 2: if Spark does not tell them, exactly-once is refused: a guess could write a batch twice.
Rule 3: a write attempt sorts by time, so that of two attempts the later one wins.
Rule 4: a batch write is known by its app id, its version and its topic: the same two for another topic are another write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import IllegalStateError

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
"""Local properties that Spark 4 gives to the tasks of a micro-batch; a contract test pins them."""


def write_attempt(now_ms: int, random_hex: str) -> str:
    """Name of an attempt; later ones sort above earlier ones."""
    return f"{now_ms:015d}-{random_hex}"


def streaming_identity(local_property: Callable[[str], str | None], transactional_id: str, attempt: str) -> SharedBatch:
    """The identity of the micro-batch that a task belongs to; an empty `transactional_id` is `spark-<query id>`.

    Raises `IllegalStateError` when the engine does not tell its tasks which batch they write.
    """
    found = {name: local_property(name) for name in (QUERY_ID_PROPERTY, BATCH_ID_PROPERTY, RUN_ID_PROPERTY)}
    missing = [name for name, value in found.items() if not value]
    batch_text = found[BATCH_ID_PROPERTY] or ""
    if missing or not batch_text.isdecimal():
        raise IllegalStateError(
            "this engine does not tell its tasks which micro-batch they write, so exactly-once cannot be kept; "
            "use option deliveryGuarantee=at_least_once, or foreachBatch with options txnAppId and txnVersion",
            missing=", ".join(missing) or BATCH_ID_PROPERTY,
        )
    query_id = found[QUERY_ID_PROPERTY] or ""
    return SharedBatch(
        transactional_id=transactional_id or f"spark-{query_id}",
        owner_run=found[RUN_ID_PROPERTY] or "",
        app_id=query_id,
        batch_id=int(batch_text),
        write_attempt=attempt,
    )


def transactional_id_of(app_id: str, topic: str) -> str:
    """The name of the transactions of a batch write that was given none; `topic` empty: its rows name their topics.

    One job, or one foreachBatch, writes to several topics under one app id, and each of them is a write of its own. No topic
    has a ":" in its name; an app id that has one shares a transactional id at worst, and never a token.
    """
    return f"spark-{app_id}:{topic}" if topic else f"spark-{app_id}"


def batch_identity(
    transactional_id: str, app_id: str, version: int, now_us: int, random_hex: str, topic: str = ""
) -> SharedBatch:
    """The identity of a batch job. With `app_id` and `version` a rerun is a no-op; without, each run is a batch of its own.

    A transactional id without them gets the time as its version, so that a job on it is never taken for an older one.
    """
    run = f"job-{random_hex}"
    attempt = write_attempt(now_us // 1000, random_hex)
    if app_id:
        name = transactional_id or transactional_id_of(app_id, topic)
        return SharedBatch(name, run, app_id, version, attempt)
    if transactional_id:
        return SharedBatch(transactional_id, run, "spark-job", now_us, attempt)
    # no other run writes it: without `token_expires` the coordinators keep an id for each job there ever was
    return SharedBatch(f"spark-{run}", run, "spark-job", 0, attempt, token_expires=True)
