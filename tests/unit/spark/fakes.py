"""A client without a cluster: it keeps what a task and the driver ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace, TracebackType
from typing import Any

from oncelog.client.produce.transactions.participant import BatchCommit, ParticipantResult
from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import OncelogError, UnknownTopicError


class FakeParticipant:
    """Also a plain producer: `flush` says what was sent."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.already_committed = client.committed_rows is not None
        self.committed_rows = client.committed_rows or 0
        self.is_closed = False
        self.sent: list[tuple[str, dict[str, list[Any]]]] = []

    def __enter__(self) -> FakeParticipant:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_closed = True

    def send_batch(self, topic: str, data: Any) -> None:
        if topic not in self.client.topics:
            raise UnknownTopicError(topic=topic)
        self.sent.append((topic, data.to_pydict()))

    def flush(self) -> ParticipantResult:
        rows = sum(len(columns["value"]) for _, columns in self.sent) - self.client.lose_rows
        return ParticipantResult(5, 11, rows, (("id", 0, rows),), b"of the session")


class FakeClient:
    """`committed_rows`: the batch is committed already. `join_error`, `commit_error`, `abort_error` are raised."""

    def __init__(self) -> None:
        self.topics = {"t", "u"}
        self.committed_rows: int | None = None
        self.lose_rows = 0
        self.join_error: OncelogError | None = None
        self.commit_error: OncelogError | None = None
        self.abort_error: OncelogError | None = None
        self.joins: list[dict[str, Any]] = []
        self.participants: list[FakeParticipant] = []
        self.options: list[dict[str, Any]] = []
        self.commits: list[tuple[SharedBatch, int, Sequence[ParticipantResult]]] = []
        self.aborts: list[tuple[Any, ...]] = []
        self.abort_tokens: list[bytes] = []
        self.created: list[tuple[str, int]] = []
        self.admin = SimpleNamespace(describe_topic=self._describe, create_topic=self._create)

    def join_transaction(self, batch: SharedBatch, **given: Any) -> FakeParticipant:
        self.options.append(given)
        self.joins.append({"batch": batch, **given})
        if self.join_error is not None:
            raise self.join_error
        self.participants.append(FakeParticipant(self))
        return self.participants[-1]

    def producer(self, **given: Any) -> FakeParticipant:
        self.options.append(given)
        self.participants.append(FakeParticipant(self))
        return self.participants[-1]

    def commit_transaction(
        self, batch: SharedBatch, txn_no: int, winners: Sequence[ParticipantResult], **_more: Any
    ) -> BatchCommit:
        self.commits.append((batch, txn_no, winners))
        if self.commit_error is not None:
            raise self.commit_error
        rows = sum(winner.rows for winner in winners)
        return BatchCommit(self.committed_rows is not None, self.committed_rows or rows, txn_no)

    def abort_transaction(self, *given: Any, session_token: bytes, **_more: Any) -> bool:
        self.aborts.append(given)
        self.abort_tokens.append(session_token)
        if self.abort_error is not None:
            raise self.abort_error
        return True

    def _describe(self, topic: str) -> None:
        if topic not in self.topics:
            raise UnknownTopicError(topic=topic)

    def _create(self, topic: str, *, partitions: int, if_not_exists: bool) -> None:
        assert if_not_exists
        self.created.append((topic, partitions))
        self.topics.add(topic)
