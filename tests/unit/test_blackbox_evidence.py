"""The black-box harness looks itself: was a fault done, did a service or a client end, is a round that broke judged too."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.core.batch.header import PREFIX_BYTES
from tests.blackbox import evidence, judging
from tests.blackbox.clients import Clients
from tests.blackbox.cluster import BlackBox
from tests.blackbox.disks import Disk
from tests.blackbox.etcd_backup import tool
from tests.blackbox.host import HarnessError, Healthy, Interrupted, NotHealthy
from tests.blackbox.judging import Round
from tests.blackbox.load import BlackBoxLoad
from tests.blackbox.own_ground import OwnGround
from tests.blackbox.report import Report
from tests.blackbox.round_topics import RoundTopics
from tests.blackbox.torture import Torture
from tests.blackbox.wrapped import MovedClock, seen_file
from tests.simulation.copier import Copier
from tests.simulation.history import History, Key, Records, Status
from tests.unit.test_blackbox import replica

TOPICS = RoundTopics("7")
WORK: Key = ("work", 0)

# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(("state", "is_stopped"), [("T", True), ("S", False), ("R", False)])
def test_a_frozen_process_is_one_that_the_kernel_has_stopped(tmp_path: Path, state: str, is_stopped: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a name) T (b) {state} 1 7 7 0")
    assert evidence.is_stopped(7, tmp_path) is is_stopped
    assert not evidence.is_stopped(8, tmp_path)
    assert evidence.is_gone(8, tmp_path)
    assert not evidence.is_gone(7, tmp_path)


def test_dropped_packets_are_those_of_the_rules_that_drop() -> None:
    listing = """Chain olt-cut (1 references)
    pkts      bytes target     prot opt in     out     source               destination
      12      900 DROP       all  --  *      *       10.77.0.11           0.0.0.0/0
       7      400 ACCEPT     all  --  *      *       10.77.0.12           0.0.0.0/0
       0        0 DROP       all  --  *      *       10.77.0.13           0.0.0.0/0
"""
    assert evidence.packets_dropped(listing) == 12
    assert evidence.packets_dropped(listing.replace("12      900", " 0        0")) == 0


def test_a_slow_link_has_made_packets_wait() -> None:
    said = """qdisc tbf 8001: root refcnt 2 rate 200Kbit burst 16Kb lat 1s
 Sent 4212 bytes 31 pkt (dropped 0, overlimits {} requeues 0)
"""
    assert evidence.packets_held(said.format(9)) == 9
    assert evidence.packets_held(said.format(0)) == 0


def test_a_disk_with_room_is_not_full_and_the_look_leaves_nothing_behind(tmp_path: Path) -> None:
    assert not evidence.is_full(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_lost_disk_holds_nothing_of_a_services(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1, is_real=False)
    disk.make()
    (disk.place / "data" / "logs").mkdir(parents=True)
    (disk.place / "written-and-synced").write_bytes(b"")  # the proof of power cuts, which the harness has written
    assert not disk.is_empty()
    disk.lose_all()
    assert disk.is_empty()
    assert [path.name for path in disk.place.iterdir()] == ["written-and-synced"]


def test_a_process_tells_that_its_clock_was_moved(tmp_path: Path) -> None:
    moments = iter([0, 200_000_000, 400_000_000])
    path = tmp_path / "clock"
    clock = MovedClock(str(path), lambda: next(moments))
    clock.offset_ms()
    seen = Path(seen_file(str(path)))
    assert not seen.exists()
    path.write_text("-200")
    clock.offset_ms()
    assert seen.read_text() == "-200"
    path.unlink()
    clock.offset_ms()
    assert seen.read_text() == "0"


def test_a_tool_that_does_not_run_gives_way_to_the_next_one(tmp_path: Path) -> None:
    for name, status in (("broken", 1), ("whole", 0)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {status}\n")
        (tmp_path / name).chmod(0o755)
    assert tool(tmp_path / "etcd", "broken", "whole") == str(tmp_path / "whole")
    with pytest.raises(HarnessError, match="put broken or none-such beside"):
        tool(tmp_path / "etcd", "broken", "none-such")


def test_one_by_one_each_round_has_its_own_kind() -> None:
    ground = OwnGround(BlackBox(), 1, ["kill", "clock", "stop"], one_by_one=True)
    drawn = [{fault.kind for fault in ground.schedule(number, 30.0)} for number in range(4)]
    assert drawn == [{"kill"}, {"stop"}, {"clock"}, {"kill"}]


# ---------------------------------------------------------------- the load


class CountingProducer:
    """Counts how many sends are under way at the same time."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def send_and_wait(self, _topic: str, **_record: Any) -> Any:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return type("Metadata", (), {"offset": -1})


def load(journal: Path, seed: int) -> BlackBoxLoad:
    return BlackBoxLoad("127.0.0.1:1", "client-0", 1, "0", journal, seed)


def test_a_sender_has_many_sends_under_way(tmp_path: Path) -> None:
    one, producer = load(tmp_path / "journal", 1), CountingProducer()
    one.pause_max_s = 0.0
    asyncio.run(one.send_some(producer, "p", Random(1), 20))
    assert producer.most > 12


def test_another_seed_is_another_load(tmp_path: Path) -> None:
    draws = [load(tmp_path / str(seed), seed).cluster.world.random("p").random() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_what_succeeds_before_or_after_the_faults_is_not_counted_nor_is_an_empty_poll() -> None:
    history = History()
    for kind, at_ms, status in (
        ("send", 900, Status.OK), ("send", 1_500, Status.OK), ("send", 1_600, Status.FAIL), ("poll", 1_700, Status.OK),
        ("snapshot", 1_800, Status.OK), ("send", 2_100, Status.OK),
    ):  # fmt: skip
        history.complete(history.invoke("p", kind, at_ms - 1), status, at_ms)
    assert judging.succeeded(history, 1_000, 2_000) == 2
    history.operations[3].reads = {WORK: [(0, 1)]}
    assert judging.succeeded(history, 1_000, 2_000) == 3


# ---------------------------------------------------------------- clients


def clients(tmp_path: Path, *command: str, count: int = 2) -> Clients:
    """Client processes that begin an operation and then do this."""

    def spawn(_name: str, *words: str) -> subprocess.Popen[bytes]:
        journal = words[words.index("--journal") + 1]
        return subprocess.Popen(["sh", "-c", f"trap '' USR1; echo '[]' > {journal}; exec {' '.join(command)}"])

    lives = iter(range(1, 9))
    names = [f"client-{number}" for number in range(count)]
    return Clients("", "0", names, spawn, tmp_path, lives.__next__, lambda _name: "oh", end_s=0.3)


def test_a_client_that_ends_with_an_error_is_a_finding(tmp_path: Path) -> None:
    ones = clients(tmp_path, "false")
    ones.start()
    assert ones.end_writers() == [
        f"client-died: client-{n} ({role}) ended with 1: oh" for n, role in enumerate(("senders", "transactions"))
    ]


def test_who_reads_and_copies_ends_after_all_others(tmp_path: Path) -> None:
    ones = clients(tmp_path, "false", count=5)
    ones.start()
    ended = [
        [text.partition("(")[2].partition(")")[0] for text in found]
        for found in (ones.end_writers(), ones.end_others())
    ]
    assert ended == [["senders", "transactions", "helpers"], ["readers", "copiers"]]


def test_a_client_that_does_not_end_is_a_finding_and_is_killed(tmp_path: Path) -> None:
    ones = clients(tmp_path, "sleep", "100")
    ones.start()
    found = ones.end_writers()
    assert [text.partition(" (")[0] for text in found] == ["client-hangs: client-0", "client-hangs: client-1"]
    assert all(process.poll() is not None for process in ones.processes.values())


def test_a_killed_client_has_another_life_and_says_which_process_died(tmp_path: Path) -> None:
    ones = clients(tmp_path, "sleep", "100")
    ones.start()
    old = ones.processes["client-0"].pid
    assert ones.kill("client-0") == old
    assert ones.signal("client-0", 0) == ones.processes["client-0"].pid != old
    ones.kill_all()


# ---------------------------------------------------------------- rounds


class FakeGround:
    """A cluster of which services end by themselves and which may never be healthy."""

    servers = ""
    brokers = (0,)

    def __init__(self, problem: str = "") -> None:
        self.ended = ["broker-1 ended by itself with 1: assert"]
        self._problem = problem

    def wait_healthy(self) -> Healthy:
        if self._problem:
            raise NotHealthy(self._problem)
        return Healthy(1.5, "2 partitions are under-replicated")

    def restarted(self) -> list[str]:
        found, self.ended = self.ended, []
        return found

    def effects(self) -> tuple[Counter[str], Counter[str]]:
        return Counter(), Counter()


def torture(ground: FakeGround, kind: type[Torture] = Torture) -> Torture:
    return kind(ground, Report({}), lambda _text: None)  # type: ignore[arg-type]


def test_a_service_that_ends_by_itself_is_a_finding() -> None:
    one = Round(0)
    assert torture(FakeGround())._healthy(one).seconds == 1.5
    assert one.anomalies == ["service-died: broker-1 ended by itself with 1: assert"]


def test_replicas_that_cannot_be_read_are_a_finding() -> None:
    class Unreadable(Torture):
        def _read_all(self, one: Round, keys: list[Key]) -> dict[Key, Records]:
            raise TimeoutError("not-led: broker 2 does not lead")

    one = Round(0)
    with pytest.raises(TimeoutError):
        torture(FakeGround(), Unreadable)._read(one, [WORK])
    assert one.anomalies == ["not-led: broker 2 does not lead"]


def test_a_cluster_that_does_not_heal_is_a_finding() -> None:
    one, ground = Round(0), FakeGround("2 partitions have no leader")
    with pytest.raises(NotHealthy):
        torture(ground)._healthy(one)
    assert one.anomalies[0] == "not-healthy: 2 partitions have no leader"


class ScriptedTorture(Torture):
    """Rounds that show these anomalies; a look at the end that finds this."""

    script: tuple[str, ...] = ()
    later: Records

    def _round(self, one: Round, seconds: float) -> None:
        one.anomalies += [text for text in self.script[one.number : one.number + 1] if text]
        self._finals[WORK] = [(0, 1), (1, 2)]

    def _read(self, one: Round, keys: list[Key]) -> dict[Key, Records]:
        return dict.fromkeys(keys, self.later)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({0: "aa", 5: "bb", 9: "cc"}, False),
        ({5: "bb", 9: "cc", 12: "dd"}, False),
        ({0: "aa", 5: "bbb", 9: "cc"}, True),
        ({0: "aa", 5: "b", 7: "b", 9: "cc"}, True),
        ({0: "aa", 9: "cc"}, True),
        ({0: "aa", 5: "bX", 9: "cc"}, True),
        ({}, False),
    ],
)
def test_the_logs_of_the_cluster_itself_are_the_same_where_both_replicas_have_them(
    other: dict[int, str], differs: bool
) -> None:
    def log(batches: dict[int, str]) -> dict[int, bytes]:
        return {offset: bytes(PREFIX_BYTES) + data.encode() for offset, data in batches.items()}

    mine = log({0: "aa", 5: "bb", 9: "cc"})
    assert bool(judging._own_difference(mine, log(other))) is differs
    assert bool(judging._own_difference(log(other), mine)) is differs


def test_a_member_that_is_asked_to_leave_needs_no_end_to_copy_to() -> None:
    """Only the last process of a group copies to the end; the others leave at once, and die of nothing."""

    async def main() -> None:
        copier = Copier(cast(Any, None))
        copier.finish_at({})
        consumer = SimpleNamespace(assignment=lambda: [WORK])
        await copier._look_at_the_end(cast(Any, consumer))
        assert copier._is_done

    asyncio.run(main())


@pytest.mark.parametrize(("until_found", "rounds"), [(True, 2), (False, 3)])
def test_a_hunt_ends_with_the_round_that_found_something(until_found: bool, rounds: int) -> None:
    run = torture(FakeGround(), ScriptedTorture)
    assert isinstance(run, ScriptedTorture)
    run.until_found, run.script, run.later = until_found, ("", "duplicate: x", ""), [(0, 1), (1, 2)]
    report = run.run(3, 1.0)
    assert len(report.rounds) == rounds
    assert report.anomalies == ["round 1: duplicate: x"]


def test_what_a_slow_machine_shows_ends_no_hunt() -> None:
    run = torture(FakeGround(), ScriptedTorture)
    assert isinstance(run, ScriptedTorture)
    run.until_found, run.script, run.later = True, ("client-died: x", "not-led: x", ""), [(0, 1), (1, 2)]
    assert len(run.run(3, 1.0).rounds) == 3


@pytest.mark.parametrize("is_hunt", [False, True])
def test_a_signal_ends_a_whole_hunt_and_a_single_run_reports_what_it_has(is_hunt: bool) -> None:
    class Signalled(ScriptedTorture):
        def _round(self, one: Round, seconds: float) -> None:
            raise Interrupted("interrupted by SIGTERM")

    run = torture(FakeGround(), Signalled)
    run.until_found = is_hunt
    with pytest.raises(Interrupted) if is_hunt else nullcontext():
        run.run(3, 1.0)
    assert run.report.broken == "Interrupted: interrupted by SIGTERM"
    assert len(run.report.rounds) == 1


def test_what_a_round_read_must_be_there_at_the_end() -> None:
    run = torture(FakeGround(), ScriptedTorture)
    assert isinstance(run, ScriptedTorture)
    run.later = [(0, 1)]
    (found,) = run.run(1, 1.0).anomalies
    assert found == "round 0: gone-later: ('work', 0) had 2 records after its round, and 1 at the end"


def test_without_a_final_read_what_was_read_is_judged_and_nothing_is_called_lost() -> None:
    history = History()
    for at_ms in (1, 2):
        read = history.invoke("p", "look", at_ms)
        read.reads = {WORK: [(0, at_ms)]}
        history.complete(read, Status.OK, at_ms)
    sent = history.invoke("s", "send", 3)
    sent.writes = [(WORK, 9)]
    history.complete(sent, Status.OK, 4)
    assert [text.partition(":")[0] for text in judging.anomalies_of_reads(history, TOPICS)] == ["inconsistent-offsets"]


@dataclass
class Ends:
    last_stable_offset: int
    high_watermark: int


def test_a_partition_whose_stable_offset_lags_is_not_settled() -> None:
    assert list(judging.unsettled({"t": {0: Ends(7, 7)}})) == []
    assert list(judging.unsettled({"t": {0: Ends(7, 7), 1: Ends(6, 7)}})) == ["t-1: LSO 6, high watermark 7"]


# ---------------------------------------------------------------- files


def test_a_partition_that_lies_on_fewer_brokers_than_it_should_is_named(tmp_path: Path) -> None:
    logs = [replica(tmp_path / name, b"a", b"b", b"c") for name in ("0", "1")]
    assert list(judging.files_that_differ(logs, ("t-",), 2)) == []
    (found,) = judging.files_that_differ(logs, ("t-",), 3)
    assert found.startswith("replica-missing: t-id-0 lies in 2 folders")
