"""Bad requests about channels: each is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oncelog.errors import InvalidRequestError
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.settlement import Claim, Settlement, Verdict
from oncelog_partition_leader.rpc.channels import channel_requests as checked


def receive(**fields: Any) -> None:
    checked.check_receive(pb.ReceiveRequest(**{"worker_id": "w", "partitions": [0], **fields}), 10)


def settle(*items: pb.Settlement, **fields: Any) -> dict[int, list[Settlement]]:
    return checked.settlements_of(pb.SettleRequest(**{"worker_id": "w", "items": items, **fields}))


def one(**fields: Any) -> pb.Settlement:
    return pb.Settlement(**{"delivery": 1, "verdict": pb.VERDICT_ACK, **fields})


def claim(**fields: Any) -> Claim:
    return checked.claim_of(pb.ClaimRequest(**{"worker_id": "w", **fields}))


def describe(**fields: Any) -> None:
    checked.check_describe(pb.DescribeChannelRequest(**{"partitions": [0], **fields}), 10)


def seek(**fields: Any) -> None:
    checked.check_seek(pb.SeekChannelRequest(**fields))


NAME = co.TransactionName(txn_producer_id=1, txn_no=1)
BAD: dict[str, Callable[[], object]] = {
    "no worker": lambda: receive(worker_id=""),
    "a worker that is no name": lambda: receive(worker_id="a b"),
    "a long worker": lambda: receive(worker_id="w" * 65),
    "no partitions": lambda: receive(partitions=[]),
    "a partition twice": lambda: receive(partitions=[1, 1]),
    "a partition below 0": lambda: receive(partitions=[-1]),
    "too many partitions": lambda: receive(partitions=range(11)),
    "room below 0": lambda: receive(max_in_flight=-1),
    "too much room": lambda: receive(max_in_flight=100_001),
    "bytes below 0": lambda: receive(max_bytes=-1),
    "a wait below 0": lambda: receive(max_wait_ms=-1),
    "nothing to settle": lambda: settle(),
    "no verdict": lambda: settle(one(verdict=0)),
    "another verdict": lambda: settle(one(verdict=9)),
    "a range that is none": lambda: settle(one(first_offset=5, last_offset=4)),
    "an offset below 0": lambda: settle(one(first_offset=-1)),
    "no delivery": lambda: settle(one(delivery=0)),
    "a delay that is too long": lambda: settle(one(verdict=pb.VERDICT_NACK, delay_ms=86_400_001)),
    "a delay below -1": lambda: settle(one(verdict=pb.VERDICT_NACK, delay_ms=-2)),
    "a long reason": lambda: settle(one(verdict=pb.VERDICT_REJECT, reason="x" * 1025)),
    "a settled partition below 0": lambda: settle(one(partition=-1)),
    "too many items": lambda: settle(*[one()] * 10_001),
    "too many offsets": lambda: settle(*[one(last_offset=99_999)] * 3),
    "a NACK in a transaction": lambda: settle(one(verdict=pb.VERDICT_NACK), transaction=NAME),
    "a transaction without a number": lambda: settle(one(), transaction=co.TransactionName(txn_producer_id=1)),
    "too many claims": lambda: claim(max_records=1_001),
    "too many claimed offsets": lambda: claim(offsets=range(1_001)),
    "a claimed offset below 0": lambda: claim(offsets=[-1]),
    "idle below 0": lambda: claim(min_idle_ms=-1),
    "a claim below partition 0": lambda: claim(partition=-1),
    "too many pending": lambda: describe(max_pending=10_001),
    "a description from below 0": lambda: describe(from_offset=-1),
    "a described worker that is no name": lambda: describe(worker_id="a b"),
    "a seek below -2": lambda: seek(offset=-3),
    "a seek to a time below 0": lambda: seek(timestamp_ms=-5),
    "a seek below partition 0": lambda: seek(partition=-1),
}


@pytest.mark.parametrize("what", BAD)
def test_it_is_refused(what: str) -> None:
    with pytest.raises(InvalidRequestError):
        BAD[what]()


def test_what_is_legal_is_taken_over() -> None:
    receive(max_in_flight=100_000)
    describe(max_pending=10_000, worker_id="w")
    seek(offset=-2)
    assert settle(leaves=True) == {}
    found = settle(
        one(partition=1, first_offset=3, last_offset=5),
        one(verdict=pb.VERDICT_NACK, delay_ms=-1),
        one(partition=1, first_offset=9, last_offset=9, verdict=pb.VERDICT_REJECT, reason="no"),
    )
    assert found == {
        1: [Settlement(3, 5, 1, Verdict.ACK, 0), Settlement(9, 9, 1, Verdict.REJECT, 0, "no")],
        0: [Settlement(0, 0, 1, Verdict.NACK, -1)],
    }
    assert claim(offsets=[5, 3, 5]) == Claim((3, 5), 0, 0, 100)
    assert claim(max_records=7, from_offset=2, min_idle_ms=9) == Claim((), 2, 9, 7)
