"""docs/coming-from-aiokafka.md: both ways stand side by side, and every block of ours is run, in its order.

The blocks share their names, as the lines of one program do. Ports are free ones rather than 9092.
"""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any, Final

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "coming-from-aiokafka.md").read_text()
SECTIONS: Final = {
    title: re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def test_each_section_shows_theirs_and_ours() -> None:
    assert len(SECTIONS) >= 9
    assert {title: len(blocks) for title, blocks in SECTIONS.items() if len(blocks) != 2} == {}


async def program(servers: str) -> dict[str, Any]:
    """Runs our blocks; returns the names that they leave."""
    names: dict[str, Any] = {}
    for title, (_, ours) in SECTIONS.items():
        text = ours.replace("localhost:9092", servers)
        running = eval(compile(text, title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if running is not None:
            await running
    return names


def test_our_side_works_in_its_order(cluster: LocalCluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        for topic in ("orders", "invoices"):
            client.admin.create_topic(topic, partitions=1)
        names = asyncio.run(program(cluster.bootstrap_servers))
        assert [record.value for record in names["records"]] == [b"paid"] * 2 + [b"open"] * 4
        assert names["committed"][names["partition"]].offset == len(names["records"])
        assert names["lag"] == 0
        with client.consumer("invoices", auto_offset_reset="earliest") as consumer:
            assert len(consumer.getmany(timeout_ms=10_000)) == len(names["records"])
