"""Each part of a bundle is had or is missing for a stated reason, and none stops the others."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path

import pytest

from oncelog.client.admin.descriptions import PartitionOffsets
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


def test_a_part_that_cannot_be_had_says_why_and_keeps_no_other() -> None:
    async def good() -> dict[str, str]:
        return {"password": "hunter2", "name": "n"}

    async def bad() -> None:
        raise ZeroDivisionError("with password=hunter2 in it")

    async def work() -> None:
        assert await bundle.try_to("bad", bad) is None
        assert await bundle.try_to("good", good) == {"password": "hunter2", "name": "n"}, "who asked gets all of it"

    bundle = Bundle()
    asyncio.run(work())
    assert list(bundle.parts) == ["good.json"]
    assert bundle.missing["bad"].startswith("ZeroDivisionError: with password=")
    assert "hunter2" not in bundle.missing["bad"] + str(bundle.parts)


def test_large_numbers_and_values_of_ours_are_json(tmp_path: Path) -> None:
    bundle = Bundle()
    bundle.add("part", [PartitionOffsets(1, 2, 1 << 60), {(1, 2): {3}}])
    assert json.loads(bundle.parts["part.json"]) == [
        {"log_start_offset": 1, "last_stable_offset": 2, "high_watermark": str(1 << 60)},
        {"(1, 2)": [3]},
    ]


def test_an_archive_is_its_owners_alone_and_replaces_nothing(tmp_path: Path) -> None:
    bundle, path = Bundle(), tmp_path / "b.tar.gz"
    bundle.add_text("a.txt", "token=hunter2")
    assert bundle.write(path) == path.stat().st_size
    assert path.stat().st_mode & 0o077 == 0
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["b/a.txt"]
        assert b"hunter2" not in archive.extractfile("b/a.txt").read()  # type: ignore[union-attr]
    with pytest.raises(FileExistsError):
        bundle.write(path)


def test_the_end_of_a_log_is_kept_and_a_folder_that_is_not_there_is_missing(tmp_path: Path) -> None:
    bundle = Bundle()
    (tmp_path / "broker.log").write_text("beginning and end")
    _logs(tmp_path / "broker.log", 3, bundle)
    _logs(tmp_path / "absent" / "x", 3, bundle)
    assert bundle.parts == {"logs/broker.log": b"end"}
    assert "No such file" in bundle.missing["logs/x"]


def test_a_page_that_is_no_web_page_is_never_opened(tmp_path: Path) -> None:
    bundle, secret = Bundle(), tmp_path / "secret"
    secret.write_text("hunter2")
    asyncio.run(_metrics(f"file://{secret}", 0, bundle))
    assert bundle.parts == {}
    assert "http:// or https://" in bundle.missing["metrics/0.txt"]
