"""The story of a torture: rounds of load and faults, each of them healed, read from every replica, and judged.

Rule 1: everything is healed before anything is judged, and the time that it takes is part of the report.
Rule 2: what a round read is read again at the very end: nothing that was there once may be gone later.
Rule 3: processes are started by the main thread alone: the kernel ends a child when the thread that started it ends.
Rule 4: a cluster that does not heal, and reads that do not end, are anomalies too; what its clients saw until then is judged
        all the same.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from oncelog.errors import OncelogError
from tests.blackbox import judging
from tests.blackbox.channel_judging import worst_lateness_s
from tests.blackbox.clients import Clients
from tests.blackbox.host import HarnessError, Healthy, Interrupted, NotHealthy
from tests.blackbox.journal import read_journals
from tests.blackbox.judging import Round
from tests.blackbox.plan import Fault
from tests.blackbox.report import Report
from tests.blackbox.round_topics import topics_of
from tests.simulation.history import Key, Records

_TICK_S: Final = 0.1
_LOAD_AFTER_S: Final = 3.0
Say = Callable[[str], None]
Heal = Callable[[], None]


class NotNow(Exception):
    """This fault would break the promise, or there is nothing that it could hit at this moment."""


class Ground(Protocol):
    """What is tortured: a cluster of the harness's own (`own_ground.py`), or one that runs anyway (`foreign_ground.py`)."""

    servers: str
    brokers: list[int]

    def round_name(self, number: int) -> str:
        """A part of the names of a round's topics, groups and transactional ids."""

    def clients(self, number: int) -> Clients:
        """The clients of a round, not started."""

    def schedule(self, number: int, seconds: float) -> list[Fault]:
        """The faults of a round."""

    def before_round(self, clients: Clients) -> None:
        """Called when the topics are there."""

    def begin(self, fault: Fault) -> Heal:
        """Does harm. Raises `NotNow`, or `HarnessError`."""

    def heal_all(self) -> None:
        """Ends every fault."""

    def wait_healthy(self) -> Healthy:
        """Returns when everything is in order. Raises `HarnessError`."""

    def left_over(self) -> list[str]:
        """Harm that should have been noticed and mended by now, and was not."""

    def restarted(self) -> list[str]:
        """Services that ended by themselves since the last call, and were started again."""

    def effects(self) -> tuple[Counter[str], Counter[str]]:
        """Kinds of faults since the last call: those that the machine shows, and those that it does not."""

    def logs(self) -> list[Path]:
        """Each broker's folder of partitions; empty where files cannot be looked at."""


@dataclass
class Torture:
    """`say` tells what happens as it happens. `until_found`: a round with an anomaly is the last one."""

    ground: Ground
    report: Report
    say: Say
    until_found: bool = False
    _finals: dict[Key, Records] = field(default_factory=dict)
    _prefixes: list[str] = field(default_factory=list)
    _replicas: int = 1

    def run(self, rounds: int, seconds: float) -> Report:
        """So many rounds with so many seconds of load each. A harness that cannot go on ends the run, and is no pass.

        Raises `Interrupted` of a hunt.
        """
        try:
            for number in range(rounds):
                one = Round(number)
                self.report.rounds.append(one)
                self._round(one, seconds)
                self.say(f"round {number}: {sum(one.operations.values())} operations, {len(one.anomalies)} anomalies")
                if self.until_found and judging.proofs(one.anomalies):
                    return self.report
            self._look_again(self.report.rounds[-1])
        except (HarnessError, Interrupted, OncelogError, TimeoutError) as error:
            self.report.broken = f"{type(error).__name__}: {error}"
            if self.until_found and isinstance(error, Interrupted):
                raise  # it ends the hunt, and not one of its plants
        return self.report

    # ------------------------------------------------------------ one round

    def _round(self, one: Round, seconds: float) -> None:
        topics = topics_of(self.ground.round_name(one.number))
        topics.create(self.ground.servers)
        self._prefixes += [f"{topic.name}-" for topic in topics.all]
        self._replicas = min(topic.replication_factor for topic in topics.all)
        clients = self.ground.clients(one.number)
        self.ground.before_round(clients)
        self.say(f"round {one.number} begins")
        harmed, is_whole = [], False
        began_ms = ended_ms = _now_ms()
        try:
            clients.start()
            began_ms = _now_ms()
            harmed = self.harm(one, clients, self.ground.schedule(one.number, seconds), seconds)
            ended_ms = _now_ms()
            one.seconds = (ended_ms - began_ms) / 1000
            self.bring_in_order(one, clients)
            is_whole = True
        finally:
            clients.kill_all()
            one.seen, one.unseen = self.ground.effects()
            history, errors = read_journals(clients.journals)
            one.operations = judging.counted(history)
            one.succeeded = judging.succeeded(history, began_ms, ended_ms)
            one.errors.update(f"{error['kind']} {error['name']}" for error in errors)
            if not is_whole:
                one.anomalies += judging.anomalies_of_reads(history, topics)
        one.pauses_s = judging.pauses(history, began_ms, ended_ms)
        one.lag_s = judging.worst_lag_s(history)
        one.late_s = worst_lateness_s(history, topics)
        one.pause_after = judging.pauses_by_fault(history, began_ms, ended_ms, harmed)
        try:
            final = self._read(one, topics.keys)
        except (HarnessError, OncelogError, TimeoutError):
            one.anomalies += judging.anomalies_of_reads(history, topics)
            raise
        one.anomalies += judging.anomalies(history, final, topics)
        self._finals |= final

    def bring_in_order(self, one: Round, clients: Clients) -> None:
        """The load goes on until the cluster is healthy; then writers end, and those who read reach the end.

        What is found is added to the round. Raises `NotHealthy`; `Interrupted` of a hunt.
        """
        self.ground.heal_all()
        before = self._healthy(one)
        one.anomalies += self.ground.left_over()
        after = self._healthy(one)
        one.healthy_s, one.waited_for = before.seconds + after.seconds, after.waited_for or before.waited_for
        self.say(f"round {one.number}: healthy after {one.healthy_s:.1f} s: {one.waited_for or '-'}")
        topics = topics_of(self.ground.round_name(one.number))
        one.anomalies += clients.end_writers()
        began = time.monotonic()
        try:
            judging.settled(self.ground.servers, [topics.copy, *(topic.name for topic in topics.written)])
        except TimeoutError as error:
            one.anomalies.append(str(error))
        one.settled_s = time.monotonic() - began
        self.say(f"round {one.number}: settled after {one.settled_s:.1f} s")
        one.anomalies += clients.end_others()

    def _healthy(self, one: Round) -> Healthy:
        try:
            return self.ground.wait_healthy()
        except NotHealthy as error:
            one.anomalies.append(f"not-healthy: {error}")
            raise
        finally:
            self._note_ends(one)

    def _note_ends(self, one: Round) -> None:
        """A service that ends though nobody ended it is a finding."""
        for text in self.ground.restarted():
            one.anomalies.append(f"service-died: {text}")
            self.say(text)

    def harm(self, one: Round, clients: Clients, faults: list[Fault], seconds: float) -> list[tuple[str, int, int]]:
        """Lets the schedule happen; kind, begin and end of what was done, in milliseconds since 1970."""
        order, began = itertools.count(), time.monotonic()
        due: list[tuple[float, int, Fault, Heal | None]] = [(fault.at_s, next(order), fault, None) for fault in faults]
        heapq.heapify(due)
        done: list[tuple[str, int, int]] = []
        while (passed := time.monotonic() - began) < seconds or due:
            self._note_ends(one)
            one.anomalies += clients.ended_alone()
            if not due or due[0][0] > passed:
                one.stall_s = max(one.stall_s, _slept_too_long())
                continue
            _, _, fault, heal = heapq.heappop(due)
            if heal is not None:
                heal()
                continue
            began_ms = _now_ms()
            heal = self._begin(one, fault)
            if heal is not None:
                healed_s = time.monotonic() - began + fault.lasts_s
                heapq.heappush(due, (healed_s, next(order), fault, heal))
                done.append((fault.kind, began_ms, began_ms + int(fault.lasts_s * 1000)))
        return done

    def _begin(self, one: Round, fault: Fault) -> Heal | None:
        try:
            heal = self.ground.begin(fault)
        except NotNow as reason:
            one.not_now[fault.kind] += 1
            self.say(f"  not now: {fault}: {reason}")
            return None
        one.faults[fault.kind] += 1
        self.say(f"  {fault}")
        return heal

    # ------------------------------------------------------------ reading

    def _read(self, one: Round, keys: list[Key]) -> dict[Key, Records]:
        """The final read: from every replica. Raises `TimeoutError`, which is an anomaly by then."""
        try:
            return self._read_all(one, keys)
        except TimeoutError as error:
            one.anomalies.append(str(error))
            raise

    def _read_all(self, one: Round, keys: list[Key]) -> dict[Key, Records]:
        ends = judging.settled(self.ground.servers, dict.fromkeys(topic for topic, _ in keys))
        reads = judging.read_from_each(self.ground.servers, ends, self.ground.brokers)
        one.anomalies += judging.replicas_that_differ(reads)
        one.anomalies += judging.files_that_differ(self.ground.logs(), tuple(self._prefixes), self._replicas)
        final: dict[Key, Records] = {}
        for found in reads.values():
            for key, records in found.items():
                final.setdefault(key, records)
        return final

    def _look_again(self, last: Round) -> None:
        """Rule 2."""
        before = dict(self._finals)
        again = self._read(last, list(before))
        for key, records in before.items():
            if again.get(key) != records:
                found = len(again.get(key, ()))
                last.anomalies.append(
                    f"gone-later: {key} had {len(records)} records after its round, and {found} at the end"
                )


def _slept_too_long() -> float:
    """Sleeps for a tick; by how many seconds longer it took: that long the machine gave this process no processor."""
    began = time.monotonic()
    time.sleep(_TICK_S)
    return max(0.0, time.monotonic() - began - _TICK_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
