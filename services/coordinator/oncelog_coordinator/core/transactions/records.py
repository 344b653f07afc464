"""The records of transactional ids in the log of a shard: frozen values <-> JSON bytes with sorted keys, a version.

Rule 1: a `TransactionRecord` is the WHOLE state of one transactional id, with every decided transaction whose markers
        are not all on disk; so the newest record of a key is enough, whatever compaction removed (hole 8).
Rule 2: unknown JSON keys are ignored (a newer version wrote them); an unknown `version` is refused.
Rule 3: values are tuples in a fixed order, so equal states have equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NotRequired, TypedDict

from oncelog.errors import CorruptMessageError
from oncelog.types import PartitionId
from oncelog_coordinator.core.transactions.states import Outcome, TxnState, complete, prepared

VERSION: Final = 1
EPOCH_KEY: Final = "epoch"
TRANSACTION_KEY: Final = "txn:"
NOT_COUNTED: Final = -1
"""Expected records of a partition for which the client reported no count."""


class EpochForm(TypedDict):
    """The JSON of an `EpochRecord`. What an older version does not write may be missing."""

    epoch: int
    free_below: NotRequired[int]


class OpenForm(TypedDict):
    """The JSON of an `OpenTransaction`. `join`, of one opened by Join: lease, application, batch, write attempt."""

    n: int
    started_ms: int
    timeout_ms: int
    partitions: dict[str, list[int]]
    groups: list[str]
    join: NotRequired[list[Any]]


class DecidedForm(TypedDict):
    """The JSON of a `DecidedTransaction`. `targets`: per topic id, pairs of partition and expected records."""

    n: int
    outcome: str
    session: int
    targets: dict[str, list[list[int]]]
    groups: list[str]
    winners: list[int] | None


class TransactionForm(TypedDict):
    """The JSON of a `TransactionRecord`. What an older version does not write may be missing."""

    id: str
    pid: int
    session: int
    timeout_ms: int
    updated_ms: int
    last: int
    dead: bool
    open: OpenForm | None
    decided: list[DecidedForm]
    visible: NotRequired[list[DecidedForm]]
    outcomes: str
    ahead: list[int]
    sessions: list[tuple[str, int, int]]
    owner: list[Any]
    tokens: list[tuple[str, int, int]]
    expiring: NotRequired[list[int]]
    expected: NotRequired[list[Any]]


def dump(value: Mapping[str, object]) -> bytes:
    """Returns the JSON bytes of a record."""
    return json.dumps({"v": VERSION, **value}, sort_keys=True, separators=(",", ":")).encode()


def parse(data: bytes) -> Any:
    """Returns the JSON object of a record, in the form of the decoder for its key.

    Raises `CorruptMessageError`: then the shard must not serve.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptMessageError("a record of the shard's log is no JSON") from error
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise CorruptMessageError("a record of the shard's log has an unknown version")
    return value


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """The first record in every epoch of a shard; appended again to confirm that no newer epoch has begun.

    `free_below`: everything that is needed below this offset stands between it and this record too, so the log may begin there.
    """

    epoch: int
    free_below: int = 0

    @property
    def key(self) -> str:
        """One key for all, since only the newest matters."""
        return EPOCH_KEY

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        return dump({"epoch": self.epoch, "free_below": self.free_below} if self.free_below else {"epoch": self.epoch})

    @staticmethod
    def decode(value: EpochForm) -> EpochRecord:
        """Builds the record from what `parse` returned."""
        return EpochRecord(int(value["epoch"]), int(value.get("free_below", 0)))


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Removes a key."""

    key: str

    def encode(self) -> None:
        """Returns None: a tombstone has no value."""
        return


def group_partitions(partitions: tuple[PartitionId, ...]) -> dict[str, list[int]]:
    """Groups partitions by topic id, the compact form in JSON, since a transaction may hold thousands."""
    grouped: dict[str, list[int]] = {}
    for topic_id, partition in partitions:
        grouped.setdefault(topic_id, []).append(partition)
    return grouped


@dataclass(frozen=True, slots=True)
class Target:
    """A partition that must get a marker, and how many records of the winners must be there (-1 = not counted)."""

    topic_id: str
    partition: int
    expected_records: int = NOT_COUNTED


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The one transaction of an id that may still grow. One opened by Join has a lease and a batch, others have neither."""

    txn_no: int
    started_ms: int
    timeout_ms: int
    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()
    joined: bool = False
    lease_ms: int = 0
    app_id: str = ""
    batch_id: int = 0
    write_attempt: str = ""

    def to_json(self) -> OpenForm:
        """Returns the form inside a record."""
        value: OpenForm = {
            "n": self.txn_no,
            "started_ms": self.started_ms,
            "timeout_ms": self.timeout_ms,
            "partitions": group_partitions(self.partitions),
            "groups": list(self.groups),
        }
        if self.joined:
            value["join"] = [self.lease_ms, self.app_id, self.batch_id, self.write_attempt]
        return value

    @staticmethod
    def from_json(value: OpenForm) -> OpenTransaction:
        """Reverses `to_json`."""
        lease_ms, app_id, batch_id, write_attempt = value.get("join") or (0, "", 0, "")
        return OpenTransaction(
            txn_no=value["n"],
            started_ms=value["started_ms"],
            timeout_ms=value["timeout_ms"],
            partitions=tuple(PartitionId(t, p) for t, ps in sorted(value["partitions"].items()) for p in ps),
            groups=tuple(value["groups"]),
            joined="join" in value,
            lease_ms=lease_ms,
            app_id=app_id,
            batch_id=batch_id,
            write_attempt=write_attempt,
        )


@dataclass(frozen=True, slots=True)
class DecidedTransaction:
    """A decided transaction, kept until every marker is on disk. `winners` None: every producer of the name."""

    txn_no: int
    outcome: Outcome
    session_epoch: int
    targets: tuple[Target, ...] = ()
    groups: tuple[str, ...] = ()
    winners: tuple[int, ...] | None = None
    was_visible: bool = field(default=False, compare=False)
    """Every marker has been committed once. Until it is on disk, a power cut of all replicas can remove a marker, so a
    later epoch of the shard sends them again.
    """

    def expected_on(self, topic_id: str, partition: int) -> int:
        """Returns how many records must be on a partition; -1 = not counted."""
        for target in self.targets:
            if target.topic_id == topic_id and target.partition == partition:
                return target.expected_records
        return NOT_COUNTED

    def to_json(self) -> DecidedForm:
        """Returns the form inside a record."""
        grouped: dict[str, list[list[int]]] = {}
        for target in self.targets:
            grouped.setdefault(target.topic_id, []).append([target.partition, target.expected_records])
        return {
            "n": self.txn_no,
            "outcome": self.outcome.value,
            "session": self.session_epoch,
            "targets": grouped,
            "groups": list(self.groups),
            "winners": None if self.winners is None else list(self.winners),
        }

    @staticmethod
    def from_json(value: DecidedForm) -> DecidedTransaction:
        """Reverses `to_json`."""
        winners = value["winners"]
        return DecidedTransaction(
            txn_no=value["n"],
            outcome=Outcome(value["outcome"]),
            session_epoch=value["session"],
            targets=tuple(Target(t, p, c) for t, items in sorted(value["targets"].items()) for p, c in items),
            groups=tuple(value["groups"]),
            winners=None if winners is None else tuple(winners),
        )


@dataclass(frozen=True, slots=True)
class Token:
    """The last committed batch of an application, and its rows.

    It is kept forever (hole 16), unless the committing client said that this batch is never written again: then it
    `expires`, which means that it is dropped when its transactional id is removed, and not before.  A later batch of
    the application replaces it; the successor of a token that must last has to last too, since only it shows that the
    earlier batch was committed.
    """

    app_id: str
    batch_id: int
    rows: int
    expires: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """An answer of InitProducerId, kept so that a retry with the same nonce gets it again."""

    nonce: str
    producer_epoch: int
    next_txn_no: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """The Spark run that owns the id. `number` grows with each take-over; `fenced` runs can never own it again.

    `fence_watermark`: the largest write attempt of a fenced run that is no longer remembered by name.
    `ended`: (app, batch, attempt) of the owner that were decided; `ended_watermark` covers those no longer listed.
    Batches that a token covers count for neither watermark. `newest_attempt` is for coordinators of version 0.1.
    """

    run: str = ""
    number: int = 0
    newest_attempt: str = ""
    fenced: tuple[tuple[str, str], ...] = ()
    fence_watermark: str = ""
    ended: tuple[tuple[str, int, str], ...] = ()
    ended_watermark: str = ""

    def to_json(self) -> list[object]:
        """Returns the form inside a record."""
        return [
            self.run,
            self.number,
            self.newest_attempt,
            [list(item) for item in self.fenced],
            self.fence_watermark,
            [list(item) for item in self.ended],
            self.ended_watermark,
        ]

    @staticmethod
    def from_json(value: list[Any]) -> Ownership:
        """Reverses `to_json`."""
        run, number, newest, fenced, fence_mark, ended, ended_mark = value
        return Ownership(
            run=run,
            number=number,
            newest_attempt=newest,
            fenced=tuple((r, a) for r, a in fenced),
            fence_watermark=fence_mark,
            ended=tuple((app, batch, attempt) for app, batch, attempt in ended),
            ended_watermark=ended_mark,
        )


NO_OWNER: Final = Ownership()


@dataclass(frozen=True, slots=True)
class Expected:
    """Partitions and groups that are enrolled in the next number of an id before that number is opened.

    They are part of the record that decided the number before, so the next transaction needs no record of its own
    before its leaders may open it: producers that write to the same partitions again and again pay one append per
    transaction.
    """

    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()
    may_be_open: bool = field(default=False, compare=False)
    """An earlier epoch of the shard may have let leaders open the number. True of every record that was read from a
    log, since the record of the opening is lazy and may be missing there.
    """

    def __bool__(self) -> bool:
        return bool(self.partitions or self.groups)

    def covers(self, partitions: Iterable[PartitionId], groups: Iterable[str]) -> bool:
        """True when all of these are enrolled already, and durably, so that a later epoch of the shard will know it."""
        return bool(self) and set(partitions) <= set(self.partitions) and set(groups) <= set(self.groups)

    def to_json(self) -> list[object]:
        """Returns the form inside a record, least recently used first."""
        return [[list(p) for p in self.partitions], list(self.groups)]

    @staticmethod
    def from_json(value: list[Any]) -> Expected:
        """Reverses `to_json`."""
        partitions, groups = value
        return Expected(tuple(PartitionId(t, p) for t, p in partitions), tuple(groups), may_be_open=True)


NOTHING_EXPECTED: Final = Expected()


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The whole state of one transactional id.

    Numbers up to `last_txn_no` were opened or closed. `outcomes` is one letter per number, ending with the newest
    decided one; `decided` holds those whose markers are not all on disk (also when their letter was dropped).
    `expected` belongs to the number after the newest decided one, whether it is open or not.
    """

    transactional_id: str
    producer_id: int
    session_epoch: int = 0
    timeout_ms: int = 60_000
    updated_ms: int = 0
    last_txn_no: int = 0
    dead: bool = False
    open: OpenTransaction | None = None
    decided: tuple[DecidedTransaction, ...] = ()
    outcomes: str = ""
    aborted_ahead: tuple[int, ...] = ()
    sessions: tuple[Session, ...] = ()
    owner: Ownership = NO_OWNER
    tokens: tuple[Token, ...] = ()
    expected: Expected = NOTHING_EXPECTED

    @property
    def key(self) -> str:
        """One key per transactional id."""
        return f"{TRANSACTION_KEY}{self.transactional_id}"

    @property
    def last_decided(self) -> int:
        """The newest number with an outcome; 0 = none."""
        return self.last_txn_no if self.open is None else self.last_txn_no - 1

    @property
    def last_given(self) -> int:
        """The newest number that a client or run was given: a client's session knows its next number, a run only the
        one it opened.
        """
        return self.last_txn_no if self.owner.run or self.open is not None else self.last_txn_no + 1

    def outcome_of(self, txn_no: int) -> Outcome | None:
        """Returns the outcome of a number; None when it is open, above the last one, or forgotten (`is_forgotten`)."""
        for decided in self.decided:
            if decided.txn_no == txn_no:
                return decided.outcome
        if txn_no in self.aborted_ahead:
            return Outcome.ABORTED
        index = len(self.outcomes) - 1 - (self.last_decided - txn_no)
        return Outcome(self.outcomes[index]) if 0 <= index < len(self.outcomes) else None

    def is_forgotten(self, txn_no: int) -> bool:
        """True for a number that was decided and completed, and whose outcome is no longer kept."""
        return 0 < txn_no <= self.last_decided and self.outcome_of(txn_no) is None

    def state_of(self, txn_no: int) -> TxnState:
        """Returns the state of a number. A forgotten one is DEAD; one that an earlier epoch may have opened is ONGOING."""
        if self.open is not None and self.open.txn_no == txn_no:
            return TxnState.ONGOING
        if self.open is None and self.expected.may_be_open and self.expected and txn_no == self.last_txn_no + 1:
            return TxnState.ONGOING
        outcome = self.outcome_of(txn_no)
        if outcome is None:
            return TxnState.DEAD if self.is_forgotten(txn_no) else TxnState.EMPTY
        pending = any(decided.txn_no == txn_no for decided in self.decided)
        return prepared(outcome) if pending else complete(outcome)

    @property
    def state(self) -> TxnState:
        """The state shown for the id: that of its newest number. An id that is used again after DEAD is EMPTY."""
        if self.dead:
            return TxnState.DEAD
        newest = self.state_of(self.last_txn_no) if self.last_txn_no else TxnState.EMPTY
        return TxnState.EMPTY if newest is TxnState.DEAD else newest

    def token_of(self, app_id: str) -> Token | None:
        """Returns the last committed token of an application."""
        return next((token for token in self.tokens if token.app_id == app_id), None)

    @property
    def is_lasting(self) -> bool:
        """True when it is never removed: it holds a token that must last (hole 16), or healing has closed a number that
        was never begun.
        """
        is_healed = bool(self.aborted_ahead) or (self.dead and bool(self.outcomes))
        return is_healed or not all(token.expires for token in self.tokens)

    def encode(self) -> bytes:
        """Returns the JSON value of the record."""
        more: dict[str, object] = {"expected": self.expected.to_json()} if self.expected else {}
        visible = [item.to_json() for item in self.decided if item.was_visible]
        if visible:
            more["visible"] = visible
        expiring = [place for place, token in enumerate(self.tokens) if token.expires]
        if expiring:  # an older version ignores this and keeps these tokens forever
            more["expiring"] = expiring
        return dump(
            {
                **more,
                "id": self.transactional_id,
                "pid": self.producer_id,
                "session": self.session_epoch,
                "timeout_ms": self.timeout_ms,
                "updated_ms": self.updated_ms,
                "last": self.last_txn_no,
                "dead": self.dead,
                "open": None if self.open is None else self.open.to_json(),
                "decided": [item.to_json() for item in self.decided if not item.was_visible],
                "outcomes": self.outcomes,
                "ahead": list(self.aborted_ahead),
                "sessions": [[s.nonce, s.producer_epoch, s.next_txn_no] for s in self.sessions],
                "owner": self.owner.to_json(),
                "tokens": [[t.app_id, t.batch_id, t.rows] for t in self.tokens],
            }
        )

    @staticmethod
    def decode(value: TransactionForm) -> TransactionRecord:
        """Builds the record from what `parse` returned."""
        opened, expiring = value["open"], value.get("expiring", ())
        return TransactionRecord(
            transactional_id=value["id"],
            producer_id=value["pid"],
            session_epoch=value["session"],
            timeout_ms=value["timeout_ms"],
            updated_ms=value["updated_ms"],
            last_txn_no=value["last"],
            dead=value["dead"],
            open=None if opened is None else OpenTransaction.from_json(opened),
            decided=_decided(value["decided"], value.get("visible", ())),
            outcomes=value["outcomes"],
            aborted_ahead=tuple(value["ahead"]),
            sessions=tuple(Session(*item) for item in value["sessions"]),
            owner=Ownership.from_json(value["owner"]),
            tokens=tuple(
                Token(app, batch, rows, place in expiring) for place, (app, batch, rows) in enumerate(value["tokens"])
            ),
            expected=Expected.from_json(value["expected"]) if "expected" in value else NOTHING_EXPECTED,
        )


def _decided(waiting: Sequence[DecidedForm], visible: Sequence[DecidedForm]) -> tuple[DecidedTransaction, ...]:
    """Merges both lists. They are apart because an older version refuses more than five under "decided"; it takes those
    under "visible", which it does not know, for complete.
    """
    found = [DecidedTransaction.from_json(item) for item in waiting]
    found += [replace(DecidedTransaction.from_json(item), was_visible=True) for item in visible]
    return tuple(sorted(found, key=lambda item: item.txn_no))
