"""The form of requests about channels, and their content as the core has it.

Rule: whatever is wrong with a request is found here, before anything is changed: `InvalidRequestError` says what is legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog.core.batch.header import NO_SHARD
from oncelog.core.names import check_channel_name
from oncelog.errors import InvalidRequestError
from oncelog.v1 import channel_pb2 as pb
from oncelog.v1 import coordinator_pb2 as co
from oncelog_partition_leader.core.channels.settlement import Claim, Settlement, Verdict

IN_FLIGHT_MAX: Final = 100_000
ITEMS_MAX: Final = 10_000
"""The most settlements of one request."""
OFFSETS_MAX: Final = 200_000
"""The most offsets that the settlements of one request span together."""
CLAIMED_MAX: Final = 1_000
_CLAIMED: Final = 100
PENDING_MAX: Final = 10_000
DEFAULT_BYTES: Final = 1 << 20


def check_receive(request: pb.ReceiveRequest, partitions_max: int) -> None:
    """Checks what a worker asks for."""
    check_channel_name(request.worker_id)
    check_partitions(request.partitions, partitions_max)
    if not 0 <= request.max_in_flight <= IN_FLIGHT_MAX:
        raise InvalidRequestError(f"max_in_flight is 0 to {IN_FLIGHT_MAX}", given=request.max_in_flight)
    if request.max_bytes < 0 or request.max_wait_ms < 0:
        raise InvalidRequestError(
            "bounds are not negative", max_bytes=request.max_bytes, max_wait_ms=request.max_wait_ms
        )


def check_partitions(partitions: Iterable[int], partitions_max: int) -> None:
    """Checks that a request names partitions, each once, and not too many."""
    named = list(partitions)
    if not 1 <= len(named) <= partitions_max:
        raise InvalidRequestError(f"a request names 1 to {partitions_max} partitions", given=len(named))
    if len(set(named)) != len(named):
        raise InvalidRequestError("a partition stands twice in one request: name each once")
    if min(named) < 0:
        raise InvalidRequestError("partitions are counted from 0", partition=min(named))


def settlements_of(request: pb.SettleRequest) -> dict[int, list[Settlement]]:
    """Returns the settlements of a request by partition, in its order."""
    check_channel_name(request.worker_id)
    if not request.items and not request.leaves:
        raise InvalidRequestError("a request settles at least one record")
    if len(request.items) > ITEMS_MAX:
        raise InvalidRequestError(f"a request has at most {ITEMS_MAX} settlements", given=len(request.items))
    found: dict[int, list[Settlement]] = {}
    offsets = 0
    for item in request.items:
        if item.partition < 0:
            raise InvalidRequestError("partitions are counted from 0", partition=item.partition)
        settlement = _settlement(item)
        settlement.check()
        offsets += settlement.last - settlement.first + 1
        found.setdefault(item.partition, []).append(settlement)
    if offsets > OFFSETS_MAX:
        raise InvalidRequestError(f"the settlements of a request span at most {OFFSETS_MAX} offsets", given=offsets)
    if request.HasField("transaction"):
        _check_transaction(request)
    return found


def _settlement(item: pb.Settlement) -> Settlement:
    try:
        verdict = Verdict(item.verdict)
    except ValueError:
        raise InvalidRequestError("there is no such verdict", verdict=item.verdict) from None
    delay_ms = item.delay_ms if verdict is Verdict.NACK else 0
    reason = item.reason if verdict is Verdict.REJECT else ""
    first, last = item.first_offset, item.last_offset
    return Settlement(first, last, item.delivery, verdict, delay_ms, reason, item.leader_epoch)


def _check_transaction(request: pb.SettleRequest) -> None:
    if any(item.verdict != pb.VERDICT_ACK for item in request.items):
        raise InvalidRequestError("a transaction takes acknowledgements only: settle the others without it")
    check_name(request.transaction)


def check_name(name: co.TransactionName) -> None:
    """Checks that it names a transaction and its shard."""
    if name.txn_producer_id < 0 or name.txn_no < 1 or not 0 <= name.txn_shard < NO_SHARD:
        raise InvalidRequestError(
            "a transaction has a producer id, a number and a shard",
            txn_producer_id=name.txn_producer_id,
            txn_no=name.txn_no,
            txn_shard=name.txn_shard,
        )


def claim_of(request: pb.ClaimRequest) -> Claim:
    """Returns what a worker claims."""
    check_channel_name(request.worker_id)
    if request.partition < 0:
        raise InvalidRequestError("partitions are counted from 0", partition=request.partition)
    if not 0 <= request.max_records <= CLAIMED_MAX or len(request.offsets) > CLAIMED_MAX:
        raise InvalidRequestError(f"a request claims at most {CLAIMED_MAX} records", max_records=request.max_records)
    if request.min_idle_ms < 0 or request.from_offset < 0 or min(request.offsets, default=0) < 0:
        raise InvalidRequestError("offsets and times are not negative")
    offsets = tuple(sorted(set(request.offsets)))
    most = request.max_records or max(len(offsets), _CLAIMED)
    return Claim(offsets, request.from_offset, request.min_idle_ms, most)


def check_describe(request: pb.DescribeChannelRequest, partitions_max: int) -> None:
    """Checks a question about a channel."""
    check_partitions(request.partitions, partitions_max)
    if request.worker_id:
        check_channel_name(request.worker_id)
    if not 0 <= request.max_pending <= PENDING_MAX:
        raise InvalidRequestError(f"max_pending is 0 to {PENDING_MAX}", given=request.max_pending)
    if request.min_idle_ms < 0 or request.from_offset < 0:
        raise InvalidRequestError("offsets and times are not negative")


def check_seek(request: pb.SeekChannelRequest) -> None:
    """Checks where a channel is to go on."""
    if request.partition < 0:
        raise InvalidRequestError("partitions are counted from 0", partition=request.partition)
    if request.timestamp_ms < 0 or request.offset < -2:
        raise InvalidRequestError(
            "a channel goes on at -1 (latest), -2 (earliest), an offset, or a time above 0",
            offset=request.offset,
            timestamp_ms=request.timestamp_ms,
        )
