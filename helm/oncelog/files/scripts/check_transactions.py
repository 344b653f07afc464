"""What `helm test` runs: commit one transaction, abort one, and read with read_committed what must be there, and no more.

It makes a topic of its own and deletes it at the end. The cluster's address, certificates and token come from the environment,
by the names that the command line uses. With CHECK_STRANGER, a client that says nothing of itself must be refused. Exit code 0
and one line per step, or 1 and what was wrong.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from oncelog.errors import ClusterAuthorizationError, OncelogError
from oncelog.sync import Client

_PARTITIONS = 3
_RECORDS = 30
_DEADLINE_S = 120.0
_TLS = ("security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile")
_IDENTITY = ("token_file",)


def options(*names: str) -> dict[str, Any]:
    """What the client is told beside the address."""
    given = {name: os.environ.get(f"ONCELOG_{name.upper()}", "") for name in names}
    return {name: value for name, value in given.items() if value}


def check_stranger(servers: str) -> None:
    """Raises `AssertionError` when a client without token, password and certificate may look at the users."""
    with Client(servers, client_id="helm-test-stranger", **options(*_TLS)) as client:
        try:
            users = client.admin.list_users()
        except ClusterAuthorizationError as refusal:
            print(f"a stranger is refused: {refusal.code.name}", flush=True)
            return
    raise AssertionError(f"a stranger was told of {len(users)} users: are the access rules on?")


def write(client: Any, topic: str, words: str, *, commit: bool) -> None:
    """One transaction over all partitions."""
    with client.producer(transactional_id=f"{topic}-{words}") as producer:
        transaction = producer.begin_transaction()
        for number in range(_RECORDS):
            transaction.send(topic, value=f"{words} {number}".encode(), partition=number % _PARTITIONS)
        transaction.flush()  # an abort has something to hide only when the records are in the log
        if commit:
            transaction.commit(wait="visible")
        else:
            transaction.abort()
    print(f"{_RECORDS} records {'committed' if commit else 'aborted'}", flush=True)


def records(client: Any, topic: str, isolation_level: str) -> Iterator[bytes]:
    """Everything in the topic up to its end as it is now."""
    consumer = client.consumer(auto_offset_reset="earliest", isolation_level=isolation_level)
    with consumer:
        partitions = [(topic, partition) for partition in range(_PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + _DEADLINE_S
        while any(consumer.position((end.topic, end.partition)) < offset for end, offset in ends.items()):
            if time.monotonic() > deadline:
                raise AssertionError(f"the end of {topic} was not reached within {_DEADLINE_S:.0f} s: {ends}")
            for record in consumer.getmany(timeout_ms=500):
                yield record.value


def check(client: Any, topic: str) -> None:
    """Raises `AssertionError` when a reader sees anything else than what was committed."""
    write(client, topic, "kept", commit=True)
    write(client, topic, "dropped", commit=False)
    write(client, topic, "kept too", commit=True)
    wanted = sorted(f"{words} {n}".encode() for words in ("kept", "kept too") for n in range(_RECORDS))
    seen = sorted(records(client, topic, "read_committed"))
    assert seen == wanted, f"read_committed sees {len(seen)} records, {len(wanted)} were committed"
    print(f"{len(seen)} records read with read_committed: all that was committed, and no more", flush=True)
    hidden = [value for value in records(client, topic, "read_uncommitted") if value.startswith(b"dropped")]
    assert len(hidden) == _RECORDS, f"only {len(hidden)} of the {_RECORDS} aborted records are in the log"
    print(f"{len(hidden)} aborted records are in the log and stay hidden", flush=True)


def main() -> int:
    """The exit code."""
    topic = f"helm-test-{uuid.uuid4().hex[:8]}"
    servers = os.environ["ONCELOG_BOOTSTRAP_SERVERS"]
    try:
        if os.environ.get("CHECK_STRANGER"):
            check_stranger(servers)
        with Client(servers, client_id="helm-test", **options(*_TLS, *_IDENTITY)) as client:
            client.admin.create_topic(topic, partitions=_PARTITIONS)
            try:
                check(client, topic)
            finally:
                client.admin.delete_topic(topic)
    except (OncelogError, AssertionError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print("ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
