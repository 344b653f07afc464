"""`oncelog consume` while its topic changes."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from oncelog.cli.consume import _follow, _View
from oncelog.cli.output import Printer
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.sdk.client.test_following import append


@pytest.mark.parametrize(("chosen", "printed"), [(None, "a\nb\n"), ([0], "a\n")], ids=["topic", "partition"])
def test_partitions_that_are_added_are_printed_unless_some_were_named(
    chosen: list[int] | None, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """new_user.md, bug 3."""
    cluster = FakeCluster(partitions=1)

    async def work(_: FakeCluster) -> None:
        args = argparse.Namespace(topic=[TOPIC], partition=chosen, group=None, line_format=None, num=2)
        async with cluster.client(metadata_max_age_ms=1_000) as client:
            view = _View(args, Printer("text"))
            running = asyncio.ensure_future(_follow(client, args, {(TOPIC, 0): 0}, None, "read_committed", view))
            append(cluster, 0, b"a")
            await asyncio.sleep(0.5)
            append(cluster, cluster.add_partition(), b"b")
            await asyncio.wait((running,), timeout=5)
            running.cancel()

    cluster.run(work)
    assert capsys.readouterr().out == printed
