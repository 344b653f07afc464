"""What the black box makes of the histories of channels and of delayed records: each anomaly in a history that shows it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.blackbox import judging
from tests.blackbox.__main__ import parsed
from tests.blackbox.channel_judging import anomalies_of_channels, early, life_of, worst_lateness_s
from tests.blackbox.channel_load import EMPTIED
from tests.blackbox.load import ROLES
from tests.blackbox.round_topics import KEYS, RoundTopics, topics_of
from tests.e2e.kubernetes.recording import pack_operation, unpack_operation
from tests.simulation.history import NEVER, History, Key, Operation, Records, Status
from tests.simulation.later_load import without_cancelled

TOPICS = RoundTopics("7")
JOBS: Key = (TOPICS.jobs, 0)
LATER: Key = (TOPICS.later, 0)
ONE, OTHER = "client-4/1-worker-0", "client-5/2-worker-0"
MS = 1_000_000
"""Nanoseconds of a millisecond."""


@dataclass
class Story:
    """A history, told in milliseconds; `final`: what is read in the end."""

    history: History = field(default_factory=History)
    final: dict[Key, Records] = field(default_factory=dict)

    def note(self, process: str, kind: str, at_ms: int, ended_ms: int = -1, status: Status = Status.OK) -> Operation:
        operation = Operation(len(self.history.operations), process, kind, at_ms, ended_ms, began=at_ms * MS)
        if ended_ms >= 0:
            operation.status, operation.ended = status, ended_ms * MS
        self.history.operations.append(operation)
        return operation

    def job(self, value: int, offset: int, key: Key = JOBS) -> None:
        """It is written, and there in the end."""
        self.note("sender", "send", 0, 1).writes = [(key, value)]
        self.final.setdefault(key, []).append((offset, value))

    def deliver(
        self, worker: str, value: int, at_ms: int, *, until_ms: int = 4_000, epoch: int = 1, key: Key = JOBS
    ) -> None:
        operation = self.note(worker, "deliver", at_ms, at_ms)
        offset = next((o for o, v in self.final.get(key, []) if v == value), 0)
        operation.reads, operation.held = {key: [(offset, value)]}, (epoch, at_ms, until_ms)

    def say(
        self, worker: str, kind: str, value: int, at_ms: int, ended_ms: int = -1, status: Status = Status.OK
    ) -> None:
        self.note(worker, kind, at_ms, ended_ms, status).about = value

    def done(self, value: int) -> None:
        """Delivered, acknowledged and copied."""
        self.deliver(ONE, value, 10)
        self.say(ONE, "ack", value, 11, 12)
        self.copy(value)

    def copy(self, value: int) -> None:
        records = self.final.setdefault((TOPICS.done, 0), [])
        records.append((len(records), value))

    def found(self, topics: RoundTopics = TOPICS) -> list[str]:
        self.note("client-5/2", EMPTIED, 9_000, 9_001)
        return [text.partition(":")[0] for text in anomalies_of_channels(self.history, self.final, topics)]


def test_what_is_done_once_is_no_anomaly() -> None:
    story = Story()
    story.job(1, 0)
    story.done(1)
    assert story.found() == []


def test_an_acknowledged_record_that_comes_again() -> None:
    story = Story()
    story.job(1, 0)
    story.done(1)
    story.deliver(OTHER, 1, 5_000, until_ms=9_000)
    assert story.found() == ["acknowledged-again"]


def test_a_record_that_was_looked_at_before_its_acknowledgement_was_confirmed_may_be_noted_later() -> None:
    story = Story()
    story.job(1, 0)
    story.deliver(ONE, 1, 10, until_ms=4_010)
    story.say(ONE, "ack", 1, 4_500, 5_000)
    frozen = story.note(OTHER, "deliver", 7_000, 7_000)
    frozen.reads, frozen.held = {JOBS: [(0, 1)]}, (2, 4_900, 8_900)
    story.copy(1)
    assert story.found() == []


def test_a_record_with_two_owners() -> None:
    story = Story()
    story.job(1, 0)
    story.deliver(ONE, 1, 10, until_ms=4_010)
    story.deliver(OTHER, 1, 3_000, until_ms=7_000)
    story.say(OTHER, "ack", 1, 3_001, 3_002)
    story.note(ONE, "deliver", 8_000)  # its process lives
    story.copy(1)
    assert story.found() == ["two-owners"]


@pytest.mark.parametrize("how", ["nack", "leave", "killed", "another leader", "deadline"])
def test_a_record_that_was_let_go_has_one_owner(how: str) -> None:
    story = Story()
    story.job(1, 0)
    story.deliver(ONE, 1, 10, until_ms=2_000 if how == "deadline" else 4_010)
    if how == "nack":
        story.say(ONE, "nack", 1, 20)
    if how == "leave":
        story.note(ONE, "leave", 20)
    if how != "killed":
        story.note(ONE, "deliver", 8_000)
    story.deliver(OTHER, 1, 3_000, until_ms=7_000, epoch=2 if how == "another leader" else 1)
    story.say(OTHER, "ack", 1, 3_001, 3_002)
    story.copy(1)
    assert story.found() == []


def test_a_record_that_nobody_has_done() -> None:
    story = Story()
    story.job(1, 0)
    story.deliver(ONE, 1, 10)
    story.say(ONE, "nack", 1, 20)
    story.copy(1)
    assert story.found() == ["lost-in-channel"]


def test_without_an_end_of_the_work_nothing_is_lost_yet() -> None:
    story = Story()
    story.job(1, 0)
    assert anomalies_of_channels(story.history, story.final, TOPICS) == []


def test_an_acknowledgement_of_unknown_outcome_counts() -> None:
    story = Story()
    story.job(1, 0)
    story.deliver(ONE, 1, 10)
    story.say(ONE, "ack", 1, 11)
    story.copy(1)
    assert story.found() == []


def test_rejections_and_letters() -> None:
    story = Story()
    story.job(1, 0)
    story.job(2, 1)
    for value in (1, 2):
        story.deliver(ONE, value, 10)
        story.say(ONE, "reject", value, 11, 12)
        story.copy(value)
    story.final[TOPICS.letters, 0] = [(0, 1), (1, 9)]
    assert story.found() == ["letter-from-nowhere", "lost-letter"]


def test_copies_that_are_missing_or_there_twice_or_of_nothing() -> None:
    story = Story()
    for value in (1, 2):
        story.job(value, value)
        story.done(value)
    story.final[TOPICS.done, 0] = [(0, 1), (1, 1), (2, 9)]
    assert story.found() == ["lost-copy", "copied-twice", "copied-from-nowhere"]


@pytest.mark.parametrize(("is_ordered", "found"), [(True, ["key-overtaken"]), (False, [])])
def test_an_earlier_record_of_a_key_after_a_later_one(is_ordered: bool, found: list[str]) -> None:
    story = Story()
    story.job(1, 0)
    story.job(1 + KEYS, 1)
    story.deliver(ONE, 1 + KEYS, 10)
    story.deliver(ONE, 1, 20)
    for value in (1, 1 + KEYS):
        story.say(ONE, "ack", value, 30, 31)
        story.copy(value)
    assert story.found(RoundTopics("7", is_ordered=is_ordered)) == found


def test_a_delivery_of_what_was_aborted_is_an_aborted_read() -> None:
    story = Story()
    story.note("client-1/1-transactions-0", "txn", 0, 1, Status.FAIL).writes = [(JOBS, 1)]
    story.deliver(ONE, 1, 10)
    found = judging.anomalies_of_reads(story.history, TOPICS)
    assert [text.partition(":")[0] for text in found] == ["G1a-aborted-read"]


# ---------------------------------------------------------------- delayed records


def delayed(story: Story, value: int, due_ms: int, status: Status = Status.OK) -> Operation:
    operation = story.note("client-0/1-later", "later", 0, 5, status)
    operation.writes, operation.due_ms = [(LATER, value)], due_ms
    return operation


def test_a_record_that_comes_before_it_is_due() -> None:
    story = Story()
    delayed(story, 1, 500)
    delayed(story, 2, 500)
    story.deliver(ONE, 1, 499, key=LATER)
    story.deliver(ONE, 2, 700, key=LATER)
    assert list(early(story.history)) == [f"early: 1 came to {ONE} 1 ms before it was due"]
    assert worst_lateness_s(story.history, TOPICS) == 0.2


def test_a_cancelled_record_that_comes_was_surely_not_to_be_there() -> None:
    story = Story()
    delayed(story, 1, 500)
    story.say("client-0/1-later", "cancel", 1, 10, 20)
    story.deliver(ONE, 1, 600, key=LATER)
    found = judging.anomalies_of_reads(story.history, TOPICS)
    assert [text.partition(":")[0] for text in found] == ["G1a-aborted-read"]


@pytest.mark.parametrize(
    ("written", "cancelled", "becomes"),
    [
        (Status.OK, Status.OK, Status.FAIL),
        (Status.OK, Status.INFO, Status.INFO),
        (Status.INFO, Status.INFO, Status.INFO),
        (Status.FAIL, Status.INFO, Status.FAIL),
    ],
)
def test_cancelling_changes_what_is_known_of_a_write(written: Status, cancelled: Status, becomes: Status) -> None:
    story = Story()
    operation = delayed(story, 1, 500, written)
    story.say("client-0/1-later", "cancel", 1, 10, 20, cancelled)
    without_cancelled(story.history)
    assert operation.status is becomes


def test_a_delayed_record_that_is_lost() -> None:
    story = Story()
    delayed(story, 1, 500)
    story.final = {key: [] for key in TOPICS.keys}
    found = [text.partition(":")[0] for text in judging.anomalies(story.history, story.final, TOPICS)]
    assert "lost-write" in found


# ---------------------------------------------------------------- around it


def test_a_life_is_a_part_of_the_names_of_its_tasks() -> None:
    assert life_of("client-5/18-worker-1") == life_of("client-5/18-copier") == life_of("client-5/18") == "client-5/18"


def test_every_second_round_keeps_the_order_of_keys() -> None:
    assert [topics_of(name).is_ordered for name in ("0", "1", "19ab-2", "19ab-3")] == [False, True, False, True]


def test_what_is_known_of_a_delivery_travels_in_the_journal() -> None:
    operation = Operation(3, ONE, "deliver", 1, 2, 3, NEVER, Status.OK)
    operation.held, operation.due_ms, operation.about = (1, 2, 3), 4, 5
    assert unpack_operation(pack_operation(operation), 3) == operation


def test_there_is_a_client_for_each_role_by_default() -> None:
    assert parsed([]).clients == len(ROLES)
