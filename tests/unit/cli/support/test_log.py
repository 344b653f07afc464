"""`oncelog log`: offsets as a person writes them, findings for people and programs, and damage as exit code 1.

What is found in a folder: tests/unit/partition_leader/log/test_dump.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.main import build_parser, main
from oncelog_cli.support import log
from oncelog_partition_leader.log import dump
from oncelog_partition_leader.log.dump import Finding

LOG = {
    "folder": "orders-0", "clean_shutdown": False, "recovery_point": 4, "log_start_offset": 0,
    "leader_epochs": [(1, 0), (2, 3)], "snapshots": [{"offset": 4, "ok": False}],
}  # fmt: skip
SEGMENT = {
    "segment": 0, "next_offset": 5, "bytes": 400, "batches": 2, "records": 5, "damaged": 0, "index": "", "aborted": [1],
}  # fmt: skip
BATCH = dict.fromkeys((*log.BATCH, *log.WIDE), 0)
DAMAGE = {"file": "0.log", "first_damaged_byte": 120, "why": "the body checksum does not match"}
SOUND = {"does": "nothing", "why": "", "outcome": "open", "log_start_offset": 0, "log_end_offset": 5}


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Makes the reader of folders find this."""

    def finds(*found: Finding) -> None:
        monkeypatch.setattr(dump, "partitions_in", lambda path: [(path, None)])
        monkeypatch.setattr(dump, "dump", lambda *_, **__: iter(found))

    return finds


@pytest.mark.parametrize(
    ("text", "offsets"),
    [("3", range(3, 4)), ("3-5", range(3, 6)), ("-5", range(6)), ("3-", range(3, 1 << 63)), ("0-0", range(1))],
)
def test_both_offsets_are_meant(text: str, offsets: range) -> None:
    flags = build_parser().parse_args(["log", "dump", "folder", f"--offsets={text}"])
    assert flags.offsets == offsets


@pytest.mark.parametrize("text", ["", "a", "5-3", "1-b", "1-2-3"])
def test_offsets_that_are_none_are_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["log", "dump", "folder", f"--offsets={text}"])
    assert ended.value.code == 2
    assert "offset" in capsys.readouterr().err


def test_people_read_sentences_and_one_table_of_neighbouring_batches(
    finding: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    finding(
        Finding("log", LOG), Finding("batch", BATCH), Finding("batch", BATCH), Finding("segment", SEGMENT),
        Finding("recovery", SOUND),
    )  # fmt: skip
    assert main(["log", "dump", "folder"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "== orders-0"
    assert lines[1] == (
        "not stopped cleanly, or still open; recovery point 4, log start 0; leader epochs: 1 from 0, 2 from 3;"
        " snapshots at: 4 (damaged)"
    )
    assert [line.split()[0] for line in lines[2:5]] == ["POSITION", "0", "0"]
    assert lines[5] == (
        "segment 0: offsets 0 to 4, 400 bytes, 2 batches, 5 records, 0 damaged; index: none; aborted index: 1 entries"
    )
    assert lines[6] == "recovery: nothing; offsets 0 to 4"


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("damage", DAMAGE, 1),
        ("recovery", SOUND, 0),
        ("recovery", {**SOUND, "outcome": "cut"}, 1),
        ("recovery", {**SOUND, "outcome": "quarantine"}, 1),
        ("recovery", {**SOUND, "outcome": "refuse"}, 1),
    ],
)
@pytest.mark.parametrize("style", ["text", "json"])
def test_damage_is_exit_code_1_in_every_format(
    finding: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    kind: str,
    fields: dict[str, Any],
    code: int,
    style: str,
) -> None:
    finding(Finding(kind, fields), Finding("segment", SEGMENT))
    assert main(["log", "dump", "folder", "--format", style]) == code


def test_programs_get_one_document_for_each_finding(
    finding: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    finding(Finding("batch", BATCH), Finding("damage", DAMAGE))
    assert main(["log", "dump", "folder", "--format", "json"]) == 1
    decoder, text, found = json.JSONDecoder(), capsys.readouterr().out, []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    assert found == [{"kind": "batch", **BATCH}, {"kind": "damage", **DAMAGE}]


@pytest.mark.parametrize("verb", ["dump", "trash"])
def test_without_the_servers_code_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.setattr(log.importlib.util, "find_spec", lambda _name: None)
    assert main(["log", verb, "folder"]) == 1
    assert "pip install 'oncelog[server]'" in capsys.readouterr().err
