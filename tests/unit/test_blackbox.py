"""The black-box harness without a cluster: schedules, journals, verdicts about files and reads, and the page of its report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from oncelog.core.batch.header import read_header
from oncelog_partition_leader.log.batch_stamping import stamp
from tests.blackbox import __main__ as command
from tests.blackbox import judging
from tests.blackbox.faults import DEEDS
from tests.blackbox.foreign_ground import parsed_fault
from tests.blackbox.host import HarnessError, Healthy, NotHealthy
from tests.blackbox.hunt import hunt, score
from tests.blackbox.journal import JournaledHistory, read_journals
from tests.blackbox.judging import Round
from tests.blackbox.plan import KINDS, LOSSES, Fault, cuts, schedule
from tests.blackbox.plants import HUNTED, plant_named
from tests.blackbox.report import Report
from tests.blackbox.rot import flip_in
from tests.blackbox.round_topics import RoundTopics
from tests.blackbox.torture import NotNow, Torture
from tests.blackbox.wrapped import MovedClock
from tests.simulation.copier import differences
from tests.simulation.history import History, Key, Status
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, plain

NODES = [f"{kind}-{number}" for kind, count in (("etcd", 3), ("broker", 3), ("coordinator", 2), ("allocator", 2), ("client", 4))
         for number in range(count)]  # fmt: skip
WORK: Key = ("work", 0)


# ---------------------------------------------------------------- schedules


def test_a_schedule_follows_from_its_seed() -> None:
    assert schedule(7, 0, 75, NODES, KINDS) == schedule(7, 0, 75, NODES, KINDS)
    assert schedule(7, 0, 75, NODES, KINDS) != schedule(8, 0, 75, NODES, KINDS)


@pytest.mark.parametrize("seed", range(40))
def test_a_node_has_one_fault_at_a_time_and_a_round_one_loss(seed: int) -> None:
    faults = schedule(seed, 0, 75, NODES, KINDS)
    assert faults
    assert sum(fault.kind in LOSSES for fault in faults) <= 1
    for number, one in enumerate(faults):
        assert one.at_s + one.lasts_s <= 75 - 2
        for other in faults[number + 1 :]:
            if other.at_s < one.at_s + one.lasts_s:
                assert not set(one.targets) & set(other.targets), (one, other)
                assert not KINDS[one.kind].lane or KINDS[one.kind].lane != KINDS[other.kind].lane, (one, other)


def test_every_kind_of_fault_comes_and_somebody_does_it() -> None:
    drawn = {fault.kind for seed in range(60) for fault in schedule(seed, 0, 75, NODES, KINDS)}
    assert drawn == set(KINDS) == set(DEEDS)


def test_every_fourth_round_is_quiet_and_a_round_has_no_kind_that_was_not_allowed() -> None:
    assert schedule(1, 3, 75, NODES, KINDS) == []
    assert schedule(1, 3, 75, NODES, KINDS, quiet=False)
    assert {fault.kind for seed in range(20) for fault in schedule(seed, 0, 75, NODES, ["kill"])} == {"kill"}


def test_an_isolated_node_hears_nobody_and_nobody_hears_it() -> None:
    pairs = set(cuts(Fault(0, "partition-one", ("broker-1",), 1, 0), NODES))
    others = [name for name in NODES if name != "broker-1"]
    assert pairs == {(a, b) for other in others for a, b in ((other, "broker-1"), ("broker-1", other))}


@pytest.mark.parametrize("chance", range(10))
def test_a_majority_of_each_kind_stays_together(chance: int) -> None:
    targets = tuple(name for name in NODES if not name.startswith("client"))
    pairs = set(cuts(Fault(0, "partition-majority", targets, 1, chance), NODES))
    for kind, stays in (("etcd", 2), ("broker", 2)):
        of_kind = [name for name in targets if name.startswith(kind)]
        whole = max(sum((a, b) not in pairs for b in of_kind) for a in of_kind)
        assert whole == stays, "who is in the majority hears itself and so many others"


def test_in_a_ring_each_one_is_deaf_to_one_neighbour_and_one_way_is_one_way() -> None:
    ring = set(cuts(Fault(0, "partition-ring", ("broker-0", "broker-1", "broker-2"), 1, 0), NODES))
    assert {("broker-0", "broker-1"), ("broker-1", "broker-2"), ("broker-2", "broker-0")} <= ring
    assert cuts(Fault(0, "partition-one-way", ("broker-0", "broker-1"), 1, 1), NODES) == [("broker-0", "broker-1")]
    mute = cuts(Fault(0, "partition-one-way", ("broker-0", "broker-1"), 1, 2), NODES)
    assert {sender for sender, _ in mute} == {"broker-0"} and len(mute) == len(NODES) - 1  # noqa: PT018


def test_an_unknown_fault_is_named_beside_those_that_there_are() -> None:
    assert command.chosen_faults("kill,flip") == ["kill", "flip"]
    assert command.chosen_faults("none") == []
    with pytest.raises(HarnessError, match="there is no fault kil; there are kill, "):
        command.chosen_faults("kil")


# ---------------------------------------------------------------- journals


def test_a_journal_says_what_a_killed_process_was_about_to_write(tmp_path: Path) -> None:
    first = JournaledHistory(tmp_path / "one", 1)
    done = first.invoke("p", "send", 10)
    done.writes = [(WORK, first.new_value())]
    first.will_write(done)
    done.write_offsets = {done.writes[0]: 4}
    first.complete(done, Status.OK, 12)
    second = JournaledHistory(tmp_path / "two", 2)
    killed = second.invoke("q", "txn", 11)
    killed.writes = [(WORK, second.new_value()), (("work", 1), second.new_value())]
    second.will_write(killed)
    second.note_error(12, "q", "txn", "NetworkError", "gone")

    history, errors = read_journals([tmp_path / "two", tmp_path / "one"])

    assert [(o.process, o.status) for o in history.operations] == [("p", Status.OK), ("q", Status.INFO)]
    assert history.operations[1].writes == killed.writes
    assert history.operations[0].ended < history.operations[1].began
    assert [error["name"] for error in errors] == ["NetworkError"]
    values = [value for operation in history.operations for _, value in operation.writes]
    assert len(set(values)) == 3, "no life gives out a value of another one"


def test_a_line_that_was_being_written_is_no_operation(tmp_path: Path) -> None:
    journal = JournaledHistory(tmp_path / "one", 1)
    journal.complete(journal.invoke("p", "poll", 1), Status.OK, 2)
    with open(tmp_path / "one", "a") as file:
        file.write('[1,["p","po')
    history, _ = read_journals([tmp_path / "one"])
    assert len(history.operations) == 1


# ---------------------------------------------------------------- verdicts


def rounds_history() -> History:
    history = History()
    for kind, at_ms in (("send", 1_000), ("txn", 2_000), ("poll", 2_000), ("send", 6_000)):
        operation = history.invoke("p", kind, at_ms - 10)
        if kind != "poll":
            operation.writes = [(WORK, history.new_value())]
        history.complete(operation, Status.OK, at_ms)
    return history


def test_a_run_in_which_nothing_succeeded_is_no_pass() -> None:
    topics = RoundTopics("7")
    found = judging.anomalies(History(), {key: [] for key in topics.keys}, topics)
    kinds = ("send", "txn", "poll", "ack", "txn-ack", "later")
    assert found == [f"no-success: no {kind} succeeded" for kind in kinds]


def test_a_copy_that_lacks_a_value_is_named() -> None:
    source = {("work", 0): [(0, 5), (1, 6)], ("work", 1): [], ("work", 2): []}
    copy = {("copy", 0): [(0, 5)], ("copy", 1): [], ("copy", 2): []}
    assert differences(source, copy, ("work", "copy")) == [
        "partition 0: 2 values, 1 copied; from index 1: [6] is [] in the copy"
    ]


def test_pauses_are_times_without_success_and_belong_to_the_faults_of_that_time() -> None:
    history = rounds_history()
    assert judging.pauses(history, 500, 7_000) == {"send": 5.0, "txn": 5.0, "ack": 6.5}
    by_fault = judging.pauses_by_fault(history, 500, 7_000, [("kill", 3_000, 4_000), ("slow", 6_500, 6_600)])
    assert by_fault == {"kill": 4.0, "slow": 1.0}


def test_records_that_one_replica_lacks_are_named() -> None:
    reads = {0: {WORK: [(0, 1), (1, 2)]}, 1: {WORK: [(0, 1), (1, 2)]}, 2: {WORK: [(0, 1)]}}
    (found,) = judging.replicas_that_differ(reads)
    assert found.startswith("lost-on-node: ('work', 0) has 2 records on broker 0, 1 on 2: [(1, 2)]")
    assert list(judging.replicas_that_differ({0: reads[0], 1: reads[1]})) == []


def replica(place: Path, *payloads: bytes, from_offset: int = 0) -> Path:
    """A broker's folder with one partition, a batch per payload, in two segments."""
    folder = place / "t-id-0"
    folder.mkdir(parents=True)
    made = [(read_header(data), data) for data in (plain(payload=payload) for payload in payloads)]
    batches = [one.data for one in stamp(made, TAG, from_offset, 1, NOW_MS)]
    (folder / f"{from_offset:020}.log").write_bytes(b"".join(batches[:2]))
    (folder / f"{from_offset + 2:020}.log").write_bytes(b"".join(batches[2:]))
    return place


def test_replicas_with_the_same_bytes_differ_in_nothing(tmp_path: Path) -> None:
    logs = [replica(tmp_path / name, b"a", b"b", b"c") for name in ("0", "1")]
    assert list(judging.files_that_differ(logs, ("t-",))) == []


@pytest.mark.parametrize(
    ("payloads", "says"), [((b"a", b"x", b"c"), "at offset 1"), ((b"a", b"b"), "begin at 2 and 1")]
)
def test_a_replica_with_another_byte_or_a_shorter_log_is_named(
    tmp_path: Path, payloads: tuple[bytes, ...], says: str
) -> None:
    logs = [replica(tmp_path / "0", b"a", b"b", b"c"), replica(tmp_path / "1", *payloads)]
    (found,) = judging.files_that_differ(logs, ("t-",))
    assert found.startswith("replica-differs: t-id-0")
    assert says in found
    assert list(judging.files_that_differ(logs, ("other-",))) == []


def test_a_replica_with_a_turned_bit_in_a_header_is_named(tmp_path: Path) -> None:
    logs = [replica(tmp_path / name, b"a", b"b", b"c") for name in ("0", "1")]
    path = logs[1] / "t-id-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[40] ^= 0x80  # the magic byte of the first batch
    path.write_bytes(data)
    (found,) = judging.files_that_differ(logs, ("t-",))
    assert "replica-differs: t-id-0" in found


def test_the_clusters_own_topics_may_go_on_and_not_hold_other_bytes(tmp_path: Path) -> None:
    logs = [replica(tmp_path / "0", b"a", b"b", b"c"), replica(tmp_path / "1", b"a", b"b")]
    for place in logs:
        (place / "t-id-0").rename(place / "__own-id-0")
    assert list(judging.files_that_differ(logs, ())) == []
    other = replica(tmp_path / "2", b"xx", b"b")
    (other / "t-id-0").rename(other / "__own-id-0")
    (found,) = judging.files_that_differ([logs[0], other], ())
    assert "at offset 0" in found


def test_a_flipped_byte_is_seen_until_its_file_is_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    path = folder / "0.log"
    path.write_bytes(bytes(20_000))
    flip = flip_in(tmp_path, Random(1))
    assert flip is not None
    assert flip.is_there()
    assert sum(byte != 0 for byte in path.read_bytes()) == 1
    (folder / "new").write_bytes(path.read_bytes())
    (folder / "new").rename(path)
    assert not flip.is_there()


def test_a_moved_clock_reads_its_file_now_and_then(tmp_path: Path) -> None:
    moments = iter([0, 50_000_000, 200_000_000, 400_000_000])
    path = tmp_path / "clock"
    clock = MovedClock(str(path), lambda: next(moments))
    assert clock.offset_ms() == 0
    path.write_text("-5000")
    assert [clock.offset_ms() for _ in range(2)] == [0, -5000]
    path.unlink()
    assert clock.offset_ms() == 0


# ---------------------------------------------------------------- the report


def test_the_page_names_anomalies_and_the_worst_of_all_rounds() -> None:
    one, other = Round(0, seconds=10, healthy_s=1.5), Round(1, seconds=10, healthy_s=4.0)
    one.operations.update({"send ok": 100})
    other.operations.update({"send ok": 300})
    one.succeeded, other.succeeded = 80, 240
    one.faults.update({"kill": 2})
    one.unseen.update({"lossy": 1})
    one.stall_s = 2.5
    other.waited_for = "2 partitions are under-replicated"
    one.pause_after, other.pause_after = {"kill": 1.0}, {"kill": 3.5}
    report = Report({"seed": 1}, [one, other])
    assert report.is_pass
    assert "PASSED: 2 rounds, 20 s of load, 16 operations/s succeeded" in report.page()
    assert "no effect  lossy 1" in report.page()
    assert "machine    gave the harness itself no processor for 2.5 s at the worst" in report.page()
    assert "  round 0: 8 operations/s, healthy after 1.5 s, pause 0.0 s, 0 anomalies, kill 2" in report.page()
    assert "after 4.0 s at the worst: 2 partitions are under-replicated" in report.page()
    assert "pause with kill 3.5 s" in report.page()
    other.anomalies.append("lost-write: t value 3 is gone")
    assert not report.is_pass
    assert "anomalies  1: lost-write 1\n  round 1: lost-write: t value 3 is gone" in report.page()
    assert json.loads(report.json())["passed"] is False


def test_a_run_that_broke_is_no_pass() -> None:
    assert not Report({}, [Round(0)], broken="HarnessError: no").is_pass
    assert not Report({}).is_pass


# ---------------------------------------------------------------- rounds


class FakeGround:
    """Says what was done to it."""

    def __init__(self, refused: str = "") -> None:
        self.said: list[str] = []
        self._refused = refused

    def restarted(self) -> list[str]:
        return []

    def ended_alone(self) -> list[str]:
        return []

    def begin(self, fault: Fault) -> Callable[[], None]:
        if fault.kind == self._refused:
            raise NotNow("somebody is down")
        self.said.append(f"begin {fault.kind}")
        return lambda: self.said.append(f"end {fault.kind}")


def test_a_schedule_happens_in_its_order_and_every_fault_that_began_ends() -> None:
    ground, one = FakeGround(refused="flip"), Round(0)
    faults = [Fault(0.0, "kill", (), 0.1, 0), Fault(0.02, "freeze", (), 0.01, 0), Fault(0.04, "flip", (), 0.0, 0)]
    done = Torture(ground, Report({}), lambda _text: None).harm(one, ground, faults, 0.0)  # type: ignore[arg-type]
    assert ground.said[0] == "begin kill"
    assert sorted(ground.said) == ["begin freeze", "begin kill", "end freeze", "end kill"]
    assert (one.faults, one.not_now) == ({"kill": 1, "freeze": 1}, {"flip": 1})
    assert [kind for kind, _, _ in done] == ["kill", "freeze"]


class HealedGround:
    """Ground and clients of a round whose faults are over. Says what was asked of it; everything asked finds something."""

    servers = ""

    def __init__(self, *health: Healthy | NotHealthy) -> None:
        self.said: list[str] = []
        self._health = list(health)

    def round_name(self, number: int) -> str:
        return str(number)

    def heal_all(self) -> None:
        self.said.append("heal all")

    def wait_healthy(self) -> Healthy:
        self.said.append("wait healthy")
        health = self._health.pop(0)
        if isinstance(health, NotHealthy):
            raise health
        return health

    def restarted(self) -> list[str]:
        return []

    def left_over(self) -> list[str]:
        return self._found("left over")

    def end_writers(self) -> list[str]:
        return self._found("end writers")

    def end_others(self) -> list[str]:
        return self._found("end others")

    def settle(self, _servers: str, _topics: list[str]) -> None:
        self._found("settle")
        raise TimeoutError("found by settle")

    def _found(self, what: str) -> list[str]:
        self.said.append(what)
        return [f"found by {what}"]


def brought_in_order(ground: HealedGround, one: Round) -> None:
    torture = Torture(ground, Report({}), lambda _text: None)  # type: ignore[arg-type]
    torture.bring_in_order(one, ground)  # type: ignore[arg-type]


def test_a_round_is_brought_in_order_under_load_and_readers_end_last(monkeypatch: pytest.MonkeyPatch) -> None:
    ground, one = HealedGround(Healthy(2.0, "broker-1"), Healthy(0.5, "")), Round(0)
    monkeypatch.setattr(judging, "settled", ground.settle)
    brought_in_order(ground, one)
    finders = ["left over", "end writers", "settle", "end others"]
    assert ground.said == ["heal all", "wait healthy", finders[0], "wait healthy", *finders[1:]]
    assert one.anomalies == [f"found by {finder}" for finder in finders]
    assert (one.healthy_s, one.waited_for) == (2.5, "broker-1")


@pytest.mark.parametrize("healthy", [(), (Healthy(2.0, "broker-1"),)])
def test_a_cluster_that_stays_ill_ends_the_round_as_an_anomaly(healthy: tuple[Healthy, ...]) -> None:
    ground, one = HealedGround(*healthy, NotHealthy("broker-1 is down")), Round(0)
    with pytest.raises(NotHealthy):
        brought_in_order(ground, one)
    assert one.anomalies[-1] == "not-healthy: broker-1 is down"
    assert "end writers" not in ground.said


def test_a_fault_of_ones_own_is_two_commands() -> None:
    assert parsed_fault("docker pause a ::: docker unpause a") == ("docker pause a", "docker unpause a")
    for text in ("docker kill a", "::: true", "docker kill a :::"):
        with pytest.raises(HarnessError, match="two commands"):
            parsed_fault(text)


# ---------------------------------------------------------------- planted bugs


def test_eighteen_plants_are_hunted_and_each_finds_what_it_changes() -> None:
    assert len(HUNTED) == 18
    for name, faults in HUNTED.items():
        assert command.chosen_faults(faults)
        with plant_named(name).planted():
            pass


def test_a_run_on_a_machine_that_is_too_slow_finds_nothing() -> None:
    report = Report({}, [Round(0, anomalies=["no-success: no txn succeeded"])], broken="HarnessError: not healthy")
    (catch,) = hunt({"any": "kill"}, lambda *_: report, 1, 1, lambda _text: None)
    assert not catch.shown
    assert str(catch) == "any: NOT FOUND no-success (HarnessError: not healthy) (1 try)"


def test_the_lag_of_readers_is_counted_from_the_acknowledgement() -> None:
    history = rounds_history()
    late = history.invoke("c", "poll", 6_100)
    late.reads = {WORK: [(0, 1), (2, 3)]}
    history.complete(late, Status.OK, 7_500)
    assert judging.worst_lag_s(history) == 6.5


def test_a_hunt_tries_other_seeds_and_tells_what_was_not_found() -> None:
    tried: list[tuple[str, int]] = []

    def run(plant: str, _faults: str, seed: int) -> Report:
        tried.append((plant, seed))
        found = ["duplicate: t value 1"] if (plant, seed) == ("late", 6) else []
        return Report({}, [Round(0, anomalies=found)])

    found = hunt({"late": "kill", "never": "kill"}, run, 5, 2, lambda _text: None)
    assert tried == [("late", 5), ("late", 6), ("never", 5), ("never", 6)]
    assert score(found) == "late: duplicate (2 tries)\nnever: NOT FOUND (2 tries)\nfound 1 of 2"
