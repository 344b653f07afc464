"""A future without a loop, and commands that wait for one."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.core.batch.header import read_header
from oncelog_partition_leader.core.appends.commands import AppendBatch, Written
from tests.unit.partition_leader.log_helpers import batch


class AReply:
    """Keeps what a command was answered with."""

    def __init__(self) -> None:
        self.result: Written | None = None
        self.error: BaseException | None = None
        self.gone = False

    def done(self) -> bool:
        return self.gone or self.result is not None or self.error is not None

    def cancelled(self) -> bool:
        return self.gone

    def exception(self) -> BaseException | None:
        return self.error

    def set_result(self, result: Written, /) -> None:
        assert not self.done()
        self.result = result

    def set_exception(self, exception: BaseException, /) -> None:
        assert not self.done()
        self.error = exception

    def add_done_callback(self, fn: Callable[[AReply], object], /) -> None:
        raise AssertionError("no core waits for an answer")


def command(
    producer_id: int = 1,
    sequence: int = 0,
    *,
    txn: tuple[int, int] | None = None,
    acks: int = -1,
    deadline_ms: int = 1_000,
) -> AppendBatch:
    """A client's batch in the queue; `producer_id` -1 = without one."""
    data = batch(producer_id, sequence if producer_id >= 0 else -1, epoch=0 if producer_id >= 0 else -1, txn=txn)
    return AppendBatch(AReply(), deadline_ms, acks, header=read_header(data), data=data, transactional_id="t")
