"""Each part of a bundle is had or is missing for a stated reason, and none stops the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_cli.support.debug_bundle import Bundle, _logs, _metrics


def test_logs_of_one_name_do_not_hide_each_other(tmp_path: Path) -> None:
    bundle = Bundle()
    for node in ("a", "b"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "broker.log").write_text(node)
        _logs(tmp_path / node, 100, bundle)
    assert sorted(bundle.parts.values()) == [b"a", b"b"]


def test_a_page_that_speaks_no_http_is_missing(tmp_path: Path) -> None:
    async def main() -> Bundle:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x00\x00\x12\x04\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        bundle = Bundle()
        await _metrics(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", 0, bundle)
        server.close()
        return bundle

    assert list(asyncio.run(main()).missing) == ["metrics/0.txt"]
