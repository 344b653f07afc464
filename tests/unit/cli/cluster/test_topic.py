"""`oncelog topic trim-prefix` when a partition refuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from oncelog.errors import OffsetOutOfRangeError
from oncelog_cli.cluster import topic
from oncelog_cli.terminal import offset_spec
from oncelog_cli.terminal.output import Printer


class Admin:
    """Of a topic with three partitions, of which one refuses."""

    def __init__(self) -> None:
        self.admin = self

    def give_up_after(self, _timeout_ms: int) -> None:
        """Has all the time there is."""

    async def describe_topic(self, _name: str) -> argparse.Namespace:
        return argparse.Namespace(partitions=[argparse.Namespace(partition=number) for number in range(3)])

    async def delete_records(self, _topic: str, partition: int, offset: int) -> int:
        if partition == 1:
            raise OffsetOutOfRangeError("above the high watermark", offset=offset)
        return offset


@pytest.fixture
def trim(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    async def offsets_at(_client: object, wanted: list[tuple[str, int]], _place: object) -> dict[tuple[str, int], int]:
        return dict.fromkeys(wanted, 7)

    def with_client(_args: object, work: Callable[[Any], Coroutine[Any, Any, int]]) -> int:
        import asyncio

        return asyncio.run(work(Admin()))

    monkeypatch.setattr(offset_spec, "offsets_at", offsets_at)
    monkeypatch.setattr(topic, "with_client", with_client)
    args = argparse.Namespace(topic="orders", offset="7", partitions=None, yes=True, timeout_ms=30_000)
    return lambda style: topic._trim_prefix(args, Printer(style))


def test_what_was_deleted_is_told_though_another_partition_refused(
    trim: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert trim("text") == 1
    out, complaints = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["TOPIC", "PARTITION", "LOG-START-OFFSET", "ERROR"],
        ["orders", "0", "7", "-"],
        ["orders", "1", "-", "OFFSET_OUT_OF_RANGE"],
        ["orders", "2", "7", "-"],
    ]
    assert "partition 1" in complaints


def test_programs_see_it_too(trim: Callable[[str], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert trim("json") == 1
    assert '"error": "OFFSET_OUT_OF_RANGE"' in capsys.readouterr().out
