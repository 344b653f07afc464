"""`ProducerStates` against a model that remembers everything and looks through all of it for every answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog.core.batch.control import control_of
from oncelog.core.batch.header import read_header
from oncelog.errors import OncelogError
from oncelog_partition_leader.core.producers.decisions import Append, Duplicate, NeedsEnrolment
from oncelog_partition_leader.core.producers.packed_entry import PACKED_BATCHES
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.sequence_window import KEPT_BATCHES
from tests.unit.partition_leader.log_helpers import States, batch, fence, marker

Name = tuple[int, int]
PRODUCERS = st.integers(1, 3)
EPOCHS = st.integers(0, 3)
NUMBERS = st.integers(1, 4)
SEQUENCES = st.integers(0, 30)
COUNTS = st.integers(1, 4)
CONTENTS = st.sampled_from([b"one", b"two"])


@dataclass
class Model:
    """Everything that was ever written. A stream is (producer, epoch) or (producer, epoch, name)."""

    streams: dict[tuple[object, ...], list[tuple[int, int, bytes, int]]] = field(default_factory=dict)
    kept: dict[tuple[object, ...], int] = field(default_factory=dict)
    """How many of the newest batches of a stream are known whole."""
    epochs: dict[int, int] = field(default_factory=dict)
    sessions: dict[int, int] = field(default_factory=dict)
    open: dict[Name, int] = field(default_factory=dict)
    open_session: dict[Name, int] = field(default_factory=dict)
    members: dict[Name, set[int]] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    spans: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0

    def judge(self, stream: tuple[object, ...], base: int, count: int, content: bytes) -> str:
        """What a batch of this stream is: append, offset of a duplicate, older, or refused."""
        written = self.streams.get(stream, [])
        if base == sum(length for _, length, _, _ in written):
            return "append"
        kept = written[len(written) - self.kept.get(stream, 0) :]
        for start, length, body, offset in kept:
            if (start, length) == (base, count):
                return str(offset) if body == content else "refused"
        kept_from = kept[0][0] if kept else 0
        return "older" if base + count <= kept_from else "refused"

    def fenced(self, producer: int, epoch: int) -> bool:
        """A newer epoch or session of this producer is in the log."""
        return epoch < max(self.epochs.get(producer, -1), self.sessions.get(producer, -1))

    def plain(self, producer: int, epoch: int, base: int, count: int, content: bytes) -> str:
        """The verdict on a plain batch."""
        busy = {member for name, members in self.members.items() for member in (name[0], *members)}
        if self.fenced(producer, epoch) or producer in busy:
            return "refused"
        return self.judge((producer, epoch), base, count, content)

    def transactional(self, producer: int, epoch: int, name: Name, base: int, count: int, content: bytes) -> str:
        """The verdict on a transactional batch whose enrolment is confirmed."""
        if self.fenced(producer, epoch) or epoch < self.sessions.get(name[0], -1):
            return "refused"
        if name[1] <= self.ended.get(name[0], 0) or self.open_session.get(name, epoch) != epoch:
            return "refused"
        return self.judge((producer, epoch, name), base, count, content)

    def take(self, stream: tuple[object, ...], base: int, count: int, content: bytes) -> None:
        """A batch is in the log."""
        self.streams.setdefault(stream, []).append((base, count, content, self.end))
        self.kept[stream] = min(self.kept.get(stream, 0) + 1, KEPT_BATCHES)
        self.end += count

    def unstable(self, high_watermark: int) -> int | None:
        """First offset of what is open, or ended by a marker that is not below the high watermark."""
        firsts = [*self.open.values(), *(first for first, marker in self.spans if marker >= high_watermark)]
        return min(firsts, default=None)


class ProducerStatesMachine(RuleBasedStateMachine):
    """Random clients, zombies, coordinators and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.log = States()
        self.model = Model()
        self.watermark = 0

    def _agree(self, data: bytes, expected: str) -> bool:
        """Compares the verdicts; True when the batch is to be appended."""
        before = self.log.states.snapshot()
        try:
            decision = self.log.decide(data)
        except OncelogError:
            assert expected == "refused"
            decision = None
        assert self.log.states.snapshot() == before, "a decision only reads"
        if isinstance(decision, Append):
            assert expected == "append"
        elif isinstance(decision, Duplicate):
            assert expected == ("older" if decision.base_offset < 0 else str(decision.base_offset))
        assert not isinstance(decision, NeedsEnrolment)
        return expected == "append"

    @rule(producer=PRODUCERS, epoch=EPOCHS, base=SEQUENCES, count=COUNTS, content=CONTENTS, follow=st.booleans())
    def plain(self, producer: int, epoch: int, base: int, count: int, content: bytes, follow: bool) -> None:
        """A client's batch, often the one that follows."""
        model, stream = self.model, (producer, epoch)
        if follow:
            base = sum(length for _, length, _, _ in model.streams.get(stream, []))
        data = batch(producer, base, count, epoch=epoch, payload=content)
        if self._agree(data, model.plain(producer, epoch, base, count, content)):
            self.log.apply(data)
            model.epochs[producer] = max(epoch, model.epochs.get(producer, -1))
            model.take(stream, base, count, content)

    @rule(producer=PRODUCERS, counts=st.lists(COUNTS, min_size=1, max_size=20), epoch=EPOCHS)
    def burst(self, producer: int, counts: list[int], epoch: int) -> None:
        """Batches in a row, as an idle retry loop would leave them behind."""
        for count in counts:
            self.plain(producer, epoch, 0, count, b"one", True)

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A late copy of something that was written."""
        streams = [stream for stream in self.model.streams if len(stream) == 2]
        if streams:
            producer, epoch = data.draw(st.sampled_from(streams))
            base, count, content, _ = data.draw(st.sampled_from(self.model.streams[producer, epoch]))
            assert isinstance(producer, int)
            assert isinstance(epoch, int)
            self.plain(producer, epoch, base, count, content, False)

    @rule(
        producer=PRODUCERS,
        owner=PRODUCERS,
        number=NUMBERS,
        epoch=EPOCHS,
        base=st.integers(0, 6),
        count=COUNTS,
        content=CONTENTS,
        follow=st.booleans(),
    )
    def transactional(
        self, producer: int, owner: int, number: int, epoch: int, base: int, count: int, content: bytes, follow: bool
    ) -> None:
        """A participant's batch."""
        model, name = self.model, (owner, number)
        stream = (producer, epoch, name)
        if follow:
            base = sum(length for _, length, _, _ in model.streams.get(stream, []))
        data = batch(producer, base, count, epoch=epoch, txn=name, payload=content)
        if self._agree(data, model.transactional(producer, epoch, name, base, count, content)):
            self.log.apply(data)
            model.open.setdefault(name, model.end)
            model.open_session.setdefault(name, epoch)
            model.members.setdefault(name, set()).add(producer)
            model.sessions[owner] = max(epoch, model.sessions.get(owner, -1))
            model.take(stream, base, count, content)

    @rule(owner=PRODUCERS, number=NUMBERS, commit=st.booleans(), session=EPOCHS)
    def marker(self, owner: int, number: int, commit: bool, session: int) -> None:
        """A marker is in the log; a leader appends it whatever it ends."""
        model, name = self.model, (owner, number)
        offset = self.log.apply(marker(name, commit=commit, session_epoch=session))
        first = model.open.pop(name, None)
        model.open_session.pop(name, None)
        model.members.pop(name, None)
        if first is not None:
            model.spans.append((first, offset))
        model.ended[owner] = max(number, model.ended.get(owner, 0))
        model.sessions[owner] = max(session, model.sessions.get(owner, -1))
        model.end += 1

    @rule(producer=PRODUCERS, epoch=EPOCHS)
    def fence(self, producer: int, epoch: int) -> None:
        """A fence is in the log."""
        self.log.apply(fence(producer, epoch))
        self.model.epochs[producer] = max(epoch, self.model.epochs.get(producer, -1))
        self.model.end += 1

    @rule()
    def restart(self) -> None:
        """State from a snapshot is the same state, but for batches before the newest five."""
        states = ProducerStates.restore(self.log.states.snapshot())
        assert states.snapshot() == self.log.states.snapshot()
        self.log.states = states
        self.model.kept = {stream: min(kept, PACKED_BATCHES) for stream, kept in self.model.kept.items()}

    @rule(step=st.integers(0, 5))
    def replicate(self, step: int) -> None:
        """The high watermark moves on."""
        self.watermark = min(self.model.end, self.watermark + step)

    @invariant()
    def stability_agrees(self) -> None:
        """First unstable offset."""
        assert self.log.states.end_offset == self.model.end
        assert self.log.states.first_unstable_offset(self.watermark) == self.model.unstable(self.watermark)

    def teardown(self) -> None:
        """A replica that applies the same log has the same state (but for what became stable meanwhile)."""
        replica = ProducerStates()
        for header, data in self.log.log:
            replica.apply(header, header.base_offset, control_of(data) if header.is_control else None)
        replica.first_unstable_offset(self.watermark)
        assert replica.snapshot() == self.log.states.snapshot()


ProducerStatesMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestProducerStates = ProducerStatesMachine.TestCase


def test_the_model_reads_the_same_headers() -> None:
    header = read_header(batch(1, 2, 3, epoch=1, txn=(4, 5)))
    assert (header.producer_id, header.base_sequence, header.record_count, header.txn_no) == (1, 2, 3, 5)
