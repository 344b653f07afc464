"""Rows about one core alone: states that no test can reach through a door, and what is decided before there is a request."""

from __future__ import annotations

import io
import json
import logging
from typing import Any
from unittest.mock import Mock

import pytest

from oncelog import errors
from oncelog.core.batch.header import read_header
from oncelog.core.names import check_group_id, check_topic_name, check_transactional_id
from oncelog.errors import OncelogError
from oncelog.types import BrokerRef
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_partition_leader.core.producers.decisions import APPEND, Duplicate, NeedsEnrolment
from oncelog_partition_leader.log.batch_stamping import OFFSET_MAX, stamp
from oncelog_partition_leader.replication.follower import Follower
from oncelog_runtime.core.security.acl import check_principal
from oncelog_runtime.core.security.certificate_rules import DEFAULT_RULES, CertificateFacts, parse_rules, principal_of
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.observability.logs import JsonFormatter
from oncelog_runtime.security import stored
from tests.hostile_inputs.hands import check_sentence
from tests.hostile_inputs.rows import Kind, row
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, States, batch, marker

SEQUENCE_MAX = (1 << 31) - 1
HOSTILE_TEXTS = ("a\nb", "a\rb", "\x1b[31mred", "a\0b", "a\u2028b", "a\u202eb", "\x9b31m", '{"level": "INFO"}\n{')


def refused(error: type[OncelogError], call: Any, *given: Any) -> None:
    """By this name, in a sentence."""
    with pytest.raises(error) as caught:
        call(*given)
    check_sentence(caught.value)


@row(13, says="an append where the offsets end: refused, and nothing wraps", kind=Kind.CORE)
def last_offset() -> None:
    data = batch(1, 0, 2)
    header = read_header(data)
    (last,) = stamp([(header, data)], TAG, OFFSET_MAX - 2, 1, NOW_MS)
    assert last.next_offset == OFFSET_MAX
    for end in (OFFSET_MAX - 1, OFFSET_MAX):
        refused(errors.PolicyViolationError, stamp, [(header, data)], TAG, end, 1, NOW_MS)


@row(24, says="a sequence that wraps after 2^31 - 1 goes on at 0, and nowhere else", kind=Kind.CORE)
def wrap() -> None:
    states = States()
    states.apply(batch(1, SEQUENCE_MAX - 1, 2))
    before = states.states.snapshot()
    for wrong in (1, 2, 1 << 29):
        refused(errors.OutOfOrderSequenceError, states.decide, batch(1, wrong))
    assert states.states.snapshot() == before
    assert states.write(batch(1, 0)) is APPEND
    assert isinstance(states.decide(batch(1, SEQUENCE_MAX - 1, 2)), Duplicate), "the repeat from before the wrap"


@row(25, says="a plain batch while the producer's transaction is open", kind=Kind.CORE)
def plain_meanwhile() -> None:
    states = States()
    states.apply(batch(7, 0, txn=(7, 1)))
    refused(errors.InvalidTxnStateError, states.decide, batch(7, 1))
    assert isinstance(states.decide(batch(8, 0, txn=(8, 1)), verified=False), NeedsEnrolment), (
        "27: asked for before it opens"
    )


@row(31, says="a marker of a coordinator that is no longer the shard's owner", kind=Kind.CORE)
def old_coordinator() -> None:
    from oncelog.core.batch.control import Marker
    from oncelog_partition_leader.core.producers.transactions import TxnName

    states = States()
    for data in (batch(7, 0, txn=(7, 1)), batch(9, 0, txn=(9, 1)), marker((9, 1), coordinator_epoch=5)):
        states.apply(data)
    before = states.states.snapshot()
    for epoch in (4, 0, -1):
        refused(errors.CoordinatorFencedError, states.states.decide_marker, TxnName(7, 1), 7, Marker(True, epoch, 0))
    assert states.states.snapshot() == before


@row(
    35,
    says="transactional ids without end: one more than the limit is refused, and the existing ones go on",
    kind=Kind.CORE,
)
def many_ids() -> None:
    table = TransactionTable(Limits(max_ids=50))

    def begin(number: int) -> None:
        command = cmd.InitProducerId(f"t-{number}", 60_000, f"n{number}", 100 + number, 0, 0)
        for record in table.decide(command, NOW_MS).records:
            table.apply(record)

    for number in range(50):
        begin(number)
    for number in (50, 51, 99_999):
        refused(errors.ResourceExhaustedError, begin, number)
    begin(7)
    table.check()


@row(50, says="a log that is pushed to an incarnation of a broker that is gone", kind=Kind.CORE)
def stale_incarnation() -> None:
    follower = Follower({}, lambda: BrokerRef(1, 70), *([Mock()] * 4))
    for incarnation in (0, 69, 71, -1, (1 << 63) - 1):
        request = pb.ReplicateRequest(follower=types_pb2.BrokerRef(broker_id=1, incarnation=incarnation))
        with pytest.raises(errors.StaleBrokerEpochError) as caught:
            follower.replicate(request, b"").send(None)
        check_sentence(caught.value)


@row(
    73,
    76,
    78,
    says="names in certificates that look like other ones: whole values count, nothing is taken apart",
    kind=Kind.CORE,
)
def certificate_names() -> None:
    rules = parse_rules(DEFAULT_RULES, "principal_rules")
    root = principal_of(CertificateFacts({"uri": ("spiffe://shop/root",)}), rules)
    for value in (
        *("spiffe://shop/root,CN=x", "spiffe://shop/root\0", "spiffe://shop/root ", "spiffe://sh\u043ep/root"),
        *("spiffe://shop//root", "spiffe://shop/root#", "spiffe://shop/r\u200boot", "SPIFFE://shop/root"),
    ):
        try:
            assert principal_of(CertificateFacts({"uri": (value,)}), rules) != root
        except errors.AuthenticationError as error:
            check_sentence(error)
    for facts in ({"cn": ("spiffe://shop/root",)}, {}, {"uri": ("", "a"), "cn": ("root",)}):
        try:
            assert principal_of(CertificateFacts(facts), rules) != root
        except errors.AuthenticationError as error:
            check_sentence(error)


@row(81, says="what a client names never stands in a key of the metadata store as it is", kind=Kind.CORE)
def keys_of_names() -> None:
    for name in ("a/b", "../x", "a\0", "\xff", "a" * 5_000, "*", ""):
        with pytest.raises(errors.InvalidTopicError):
            check_topic_name(name)
        key = stored.user_key(name)
        assert key.startswith(stored.USERS)
        assert key.removeprefix(stored.USERS).isalnum()
    for name in ("a", "a.b", "a-", "0"):  # no name's key begins another's range
        assert keys.topic_key(check_topic_name(name)).removeprefix(keys.TOPICS) == name
        assert not keys.partition_key("f" * 32, 1).startswith(keys.partition_key("f" * 32, 1) + "/")


@row(
    83,
    says="ends of lines and colours in what a client names: one line of JSON, nothing that a terminal obeys",
    kind=Kind.CORE,
)
def log_lines() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for text in HOSTILE_TEXTS:
        for check in (check_topic_name, check_group_id, check_transactional_id, check_principal):
            refused(OncelogError, check, text)
        logger.warning("a client said %s", text, extra={"topic": text})
    lines = stream.getvalue().split("\n")[:-1]
    assert [json.loads(line)["topic"] for line in lines] == list(HOSTILE_TEXTS)
    assert not any(0x7F <= ord(c) < 0xA0 or ord(c) < 0x20 or c in "\u2028\u202e" for line in lines for c in line)
