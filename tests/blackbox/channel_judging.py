"""What the history of a round says of its channels and its delayed records.

Rule 1: what workers noted is played back to the judge of the simulation (`tests/simulation/channel_judge.py`), in the order of
        the machine's clock: a delivery at the time when its worker looked, an acknowledgement when it was confirmed.
Rule 2: a process that was killed owns nothing from its last note on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.core.work.message_states import MessageState
from tests.blackbox.channel_load import COPIER, EMPTIED
from tests.blackbox.round_topics import COPY_CHANNEL, KEYS, LATE_CHANNEL, WORK_CHANNEL, RoundTopics
from tests.simulation.channel_judge import Delivery, Judge
from tests.simulation.history import History, Operation, Records, Status, Value

Final_ = Mapping[tuple[str, int], Records]
_NS: Final = 1_000_000_000
_CONFIRMED: Final = {"ack": Judge.acknowledged, "reject": Judge.rejected}
_DELAYED: Final = ("later", "batch")


@dataclass(slots=True)
class _Hold:
    """What a worker knew when it handed a record out."""

    leader_epoch: int
    until_ms: int
    state: MessageState = MessageState.HELD


class _Playback:
    """Plays a history to a judge for each channel. Rules 1 and 2."""

    def __init__(self, history: History, topics: RoundTopics) -> None:
        self._now_s = 0.0
        self._later = topics.later
        self._channel_of: dict[tuple[str, Value], str] = {}
        """Which channel gave this worker this record."""
        self.judges = {
            WORK_CHANNEL: Judge(self._clock, is_ordered=topics.is_ordered),
            COPY_CHANNEL: Judge(self._clock),
            LATE_CHANNEL: Judge(self._clock),
        }
        self._events: list[tuple[float, Callable[[], None]]] = []
        for operation in history.operations:
            self._add(operation)
        for worker, life_ended_s in _last_notes(history).items():
            self._at(life_ended_s, lambda worker=worker: self._leaves(worker))  # type: ignore[misc]
        for self._now_s, happen in sorted(self._events, key=lambda event: event[0]):  # noqa: B020  (the judges' clock)
            happen()

    def _clock(self) -> float:
        return self._now_s

    def _at(self, at_s: float, happen: Callable[[], None]) -> None:
        self._events.append((at_s, happen))

    def _add(self, operation: Operation) -> None:
        began_s = operation.began / _NS
        if operation.held is not None:
            (((topic, partition), ((offset, value),)),) = operation.reads.items()
            epoch, seen_ms, until_ms = operation.held
            late = LATE_CHANNEL if topic == self._later else WORK_CHANNEL
            channel = COPY_CHANNEL if operation.process.endswith(COPIER) else late
            self._channel_of[operation.process, value] = channel
            delivery = Delivery(value, partition, offset, b"%d" % (value % KEYS), _Hold(epoch, until_ms))
            self._at(seen_ms / 1000, lambda: self.judges[channel].handed_out(operation.process, delivery))
        elif operation.kind == "leave":
            self._at(began_s, lambda: self._leaves(operation.process))
        elif operation.kind == "nack":
            self._at(began_s, lambda: self._judge(operation).gives_back(operation.process, _about(operation)))
        elif operation.kind in _CONFIRMED:
            self._at(began_s, lambda: self._judge(operation).says(operation.process, _about(operation)))
            if operation.status is Status.OK:
                confirmed, ended_s = _CONFIRMED[operation.kind], operation.ended / _NS
                self._at(ended_s, lambda: confirmed(self._judge(operation), operation.process, _about(operation)))

    def _judge(self, operation: Operation) -> Judge:
        return self.judges[self._channel_of[operation.process, operation.about]]

    def _leaves(self, worker: str) -> None:
        for judge in self.judges.values():
            judge.leaves(worker)


def _about(operation: Operation) -> Delivery:
    return Delivery(operation.about, -1, -1, None, _Hold(-1, -1))


def _last_notes(history: History) -> dict[str, float]:
    """When each worker's process noted anything for the last time."""
    last_of_life: dict[str, int] = defaultdict(int)
    workers = set[str]()
    for operation in history.operations:
        life = life_of(operation.process)
        ended = operation.ended if operation.completed_ms >= 0 else operation.began
        last_of_life[life] = max(last_of_life[life], operation.began, ended)
        if operation.held is not None:
            workers.add(operation.process)
    return {worker: last_of_life[life_of(worker)] / _NS for worker in workers}


def life_of(process: str) -> str:
    """The part of a task's name that names its process: `client-3/17` of `client-3/17-worker-0`."""
    client, _, rest = process.partition("/")
    return f"{client}/{rest.partition('-')[0]}"


# ---------------------------------------------------------------- verdicts


def anomalies_of_channels(history: History, final: Final_, topics: RoundTopics) -> list[str]:
    """What is wrong with what workers were given. Without a final read (empty), only what can be told without one."""
    judges = _Playback(history, topics).judges
    jobs, copied, later = judges[WORK_CHANNEL], judges[COPY_CHANNEL], judges[LATE_CHANNEL]
    found = [*(text for judge in judges.values() for text in judge.anomalies), *early(history)]
    is_emptied = any(o.kind == EMPTIED and o.status is Status.OK for o in history.operations)
    if not final or not is_emptied:
        return found
    jobs.written = copied.written = {*_values(final, topics.jobs)}
    jobs.letters = {*_values(final, topics.letters)}
    later.written = {*_values(final, topics.later)}
    strange = jobs.letters - jobs.said
    found += [f"letter-from-nowhere: {value} is a letter, and nobody rejected it" for value in sorted(strange)]
    return [*found, *jobs.lost(), *later.lost(), *copied.wrong_copies(Counter(_values(final, topics.done)))]


def _values(final: Final_, topic: str) -> list[Value]:
    return [value for key, records in final.items() if key[0] == topic for _, value in records]


def early(history: History) -> Iterator[str]:
    """A sentence for each delayed record that a worker was given before it was due."""
    due_ms = {value: o.due_ms for o in history.operations if o.kind in _DELAYED for _, value in o.writes}
    for operation in history.operations:
        for (topic, _), records in operation.reads.items() if operation.held is not None else ():
            for _, value in records:
                ahead_ms = due_ms.get(value, -1) - operation.invoked_ms if topic.startswith("later-") else 0
                if ahead_ms > 0:
                    yield f"early: {value} came to {operation.process} {ahead_ms} ms before it was due"


def worst_lateness_s(history: History, topics: RoundTopics) -> float:
    """How long after it was due, and surely written, a delayed record first came to a worker, at the worst."""
    wanted_ms = {
        value: max(o.due_ms, o.completed_ms)
        for o in history.operations
        if o.kind in _DELAYED and o.status is Status.OK
        for key, value in o.writes
        if key[0] == topics.later
    }
    first_ms: dict[Value, int] = {}
    for operation in history.operations:
        for records in operation.reads.values() if operation.held is not None else ():
            for _, value in records:
                first_ms[value] = min(first_ms.get(value, operation.invoked_ms), operation.invoked_ms)
    return max((first_ms[value] - due for value, due in wanted_ms.items() if value in first_ms), default=0) / 1000
