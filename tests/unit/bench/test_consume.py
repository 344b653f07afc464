"""Rounds measure everything once each, in changing order, and are compared within the round."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from bench.consume import ASSIGNED, KAFKA, SUBSCRIBED, Measured, in_rounds, lines, table
from bench.kafka_peer import KafkaCluster, properties


def test_the_first_round_is_not_counted_and_the_order_changes() -> None:
    asked: list[str] = []

    def measure(name: str) -> float:
        asked.append(name)
        return float(len(asked))

    names = ("a", "b", "c")
    measures: dict[Measured, Callable[[], float]] = {(ASSIGNED, name): partial(measure, name) for name in names}
    speeds = in_rounds(measures, 5, Random(1))
    rounds = [tuple(asked[start : start + 3]) for start in range(0, 18, 3)]
    assert [sorted(one) for one in rounds] == [list(names)] * 6
    assert len(set(rounds)) > 1
    assert all(len(found) == 5 and min(found) > 3 for found in speeds.values())


def test_a_ratio_is_of_one_round_and_of_the_same_way_to_get_partitions() -> None:
    found = lines(
        {
            (ASSIGNED, "getmany"): [100.0, 400.0, 900.0],
            (ASSIGNED, KAFKA): [100.0, 200.0, 300.0],
            (SUBSCRIBED, "getmany"): [50.0, 60.0, 70.0],
        }
    )
    ours, theirs, alone = found
    assert (ours.median, ours.lowest, ours.highest, ours.ratio) == (400.0, 100.0, 900.0, 2.0)
    assert theirs.ratio == 1.0
    assert alone.ratio is None
    assert table(found).splitlines()[3].endswith("-")


def test_every_node_knows_all_controllers_and_listens_at_its_own_ports(tmp_path: Path) -> None:
    text = properties(1, [10, 11, 12, 20, 21, 22], tmp_path)
    assert "controller.quorum.voters=0@127.0.0.1:20,1@127.0.0.1:21,2@127.0.0.1:22\n" in text
    assert "listeners=PLAINTEXT://127.0.0.1:11,CONTROLLER://127.0.0.1:21\n" in text
    assert "min.insync.replicas=2\n" in text


def test_a_folder_without_kafka_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/bin/true")
    with pytest.raises(SystemExit, match="has no kafka_2"), KafkaCluster(tmp_path, tmp_path / "data"):
        pass
