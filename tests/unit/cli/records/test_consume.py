"""`consume orders -o 999999` and `consume 'multi-.*'`: records or an error, never silence."""

from __future__ import annotations

import argparse
import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import OffsetOutOfRangeError, UnknownTopicError
from oncelog_cli.main import build_parser, main
from oncelog_cli.records import consume
from oncelog_cli.terminal.argument_types import UsageError
from oncelog_cli.terminal.output import Printer
from tests.unit.sdk.client.consume.test_following import append
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, TOPIC_ID, FakeCluster

AT_ONCE_MS = 1
"""What is known of topics is asked for again whenever it is needed."""
ENDS = {("orders", 0): 10, ("orders", 1): 20}


def words(*typed: str) -> argparse.Namespace:
    return build_parser().parse_args(["consume", *typed])


def starts_of(typed: str, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], int]:
    """Where a reader of both partitions begins."""

    async def ends(_client: Any, chosen: list[tuple[str, int]], isolation: str) -> dict[tuple[str, int], int]:
        assert isolation == "read_uncommitted", "records of an open transaction are no end"
        return {where: ENDS[where] for where in chosen}

    monkeypatch.setattr(consume, "_ends", ends)
    args = words("orders", f"-o={typed}")
    offset = int(typed) if typed.isdigit() else 0
    starts = dict.fromkeys(ENDS, offset)
    view = consume._View(args, Printer("text"))
    asyncio.run(consume._require_offsets(cast(Any, None), args, starts, view))
    return starts


def test_an_offset_beyond_every_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        OffsetOutOfRangeError, match="offset 21 lies beyond the end: orders/0 ends at 10, orders/1 ends at 20"
    ):
        starts_of("21", monkeypatch)


def test_the_end_itself_is_a_place_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(starts_of("10", monkeypatch)) == list(ENDS)


def test_partitions_that_end_before_are_named_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert starts_of("20", monkeypatch) == {("orders", 0): 10, ("orders", 1): 20}
    told = capsys.readouterr().err
    assert "offset 20 lies beyond the end: orders/0 ends at 10; only what comes next is read there" in told


@pytest.mark.parametrize("place", ["start", "end", "-5", "+999", "@2026-01-31"])
def test_other_places_lie_always_within(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(starts_of(place, monkeypatch)) == list(ENDS)


# ---------------------------------------------------------------- patterns


class Admin:
    """Knows three topics."""

    @property
    def admin(self) -> Admin:
        return self

    async def list_topics(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in ("multi-1", "multi-2", "other")]

    async def describe_topic(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name)


def topics(*typed: str) -> list[str]:
    return [topic.name for topic in asyncio.run(consume._topics(cast(Any, Admin()), words(*typed)))]


def test_a_pattern_names_topics_as_in_topic_list() -> None:
    assert topics("-r", "multi-.*") == ["multi-1", "multi-2"]
    assert topics("--regex", "multi-1", "o.*") == ["multi-1", "other"]
    assert topics("multi.1") == ["multi.1"], "without --regex a point is a point"
    with pytest.raises(UnknownTopicError, match="no topic matches"):
        topics("-r", "nothing.*")


def test_a_pattern_without_the_flag_is_told_of_it() -> None:
    with pytest.raises(UsageError, match=r"'multi-.\*' is not the name of a topic; if it is a pattern, give --regex"):
        topics("multi-.*")


def test_a_group_looks_at_records_not_at_markers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "orders", "--group", "g", "--print-control-records"]) == 2
    assert "--print-control-records is for looking" in capsys.readouterr().err


@pytest.mark.parametrize(("chosen", "printed"), [(None, "a\nb\n"), ([0], "a\n")], ids=["topic", "partition"])
def test_partitions_that_are_added_are_printed_unless_some_were_named(
    chosen: list[int] | None, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = FakeCluster(partitions=1)

    async def work(_: FakeCluster) -> None:
        args = argparse.Namespace(
            topic=[TOPIC], partition=chosen, group=None, start=None, line_format=None, num=2, client_rack=""
        )
        async with cluster.client(metadata_max_age_ms=1_000) as client:
            view = consume._View(args, Printer("text"))
            running = asyncio.ensure_future(
                consume._follow(client, args, {(TOPIC, 0): 0}, None, "read_committed", view)
            )
            append(cluster, 0, b"a")
            await asyncio.sleep(0.5)
            append(cluster, cluster.add_partition(), b"b")
            await asyncio.wait((running,), timeout=5)
            running.cancel()

    cluster.run(work)
    assert capsys.readouterr().out == printed


def test_a_group_neither_begins_nor_commits_at_an_offset_of_an_earlier_topic_of_the_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = FakeCluster(partitions=1)
    append(cluster, 0, b"old", b"old too")

    class CreatedAgain(consume._View):
        """The topic is another one by the time the printed record is committed."""

        def show(self, record: consume.Shown) -> None:
            super().show(record)
            cluster.create_again()
            append(cluster, 0, b"new", b"new too", b"the third")

    async def consume_one(kind: type[consume._View]) -> None:
        args = argparse.Namespace(
            topic=[TOPIC], partition=[0], group="g", start=None, line_format=None, num=1, client_rack=""
        )
        async with cluster.client(metadata_max_age_ms=AT_ONCE_MS) as client, asyncio.timeout(5):
            starts = await consume._starts(client, args, [(TOPIC, 0)], "read_committed")
            await consume._follow(client, args, starts, None, "read_committed", kind(args, Printer("text")))

    async def work(_: FakeCluster) -> None:
        await consume_one(consume._View)
        await consume_one(CreatedAgain)
        await consume_one(consume._View)

    cluster.run(work)
    assert capsys.readouterr().out == "old\nold too\nnew\n"
    assert cluster.offsets == {(TOPIC_ID, 0): 1, (cluster.topic_id, 0): 1}


@pytest.mark.parametrize(
    ("typed", "environment", "expected"),
    [
        ((), {}, ""),
        ((), {"ONCELOG_CLIENT_RACK": "b"}, "b"),
        (("--client-rack", "c"), {"ONCELOG_CLIENT_RACK": "b"}, "c"),
    ],
)
def test_the_rack_is_a_flag_or_stands_in_the_environment(
    typed: tuple[str, ...], environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONCELOG_CLIENT_RACK", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert words("orders", *typed).client_rack == expected


def test_records_are_read_in_the_rack(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeCluster(partitions=1)
    cluster.racks[:] = ["a", "b"]
    cluster.answering.add(BROKERS[1])
    append(cluster, 0, b"a")

    async def work(_: FakeCluster) -> None:
        args = words(TOPIC, "--client-rack", "b", "-n", "1")
        async with cluster.client() as client, asyncio.timeout(5):
            view = consume._View(args, Printer("text"))
            await consume._follow(client, args, {(TOPIC, 0): 0}, None, "read_committed", view)

    cluster.run(work)
    assert capsys.readouterr().out == "a\n"
    assert {address for address, method, _ in cluster.calls if method.endswith(".Fetch")} == {BROKERS[1]}


def test_a_number_of_records_below_0_is_a_mistake_and_not_an_empty_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["consume", "orders", "--num", "-1"])
    assert ended.value.code == 2
    assert "'-1' is not a whole number from 0" in capsys.readouterr().err
