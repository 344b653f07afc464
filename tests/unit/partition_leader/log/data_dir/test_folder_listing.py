"""`oncelog log trash`: what it lists, and what it moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog_cli.main import main
from oncelog_partition_leader.core.log.folders import trash_name

ID = "a" * 32
FOLDER = f"orders-{ID}-3"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's data directory with two copies of one log in the trash, and a file that is nobody's."""
    trash = tmp_path / "logs" / ".trash"
    for since_ms, content in ((2_000, "old"), (10_000, "newer")):
        folder = trash / trash_name(FOLDER, since_ms)
        folder.mkdir(parents=True)
        (folder / "0.log").write_text(content)
    (trash / "notes.txt").write_text("mine")
    return tmp_path


def test_the_trash_is_listed_the_oldest_first(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "trash", str(data), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["folder"], row["since_ms"], row["bytes"]) for row in rows] == [(FOLDER, 2_000, 3), (FOLDER, 10_000, 5)]
    assert {(row["topic"], row["topic_id"], row["partition"]) for row in rows} == {("orders", ID, 3)}
    assert main(["log", "trash", str(data / "logs")]) == 0
    assert FOLDER in capsys.readouterr().out


def test_the_newest_is_taken_back_unless_the_name_is_in_use(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "trash", str(data), "--take-back", FOLDER]) == 0
    assert (data / "logs" / FOLDER / "0.log").read_text() == "newer"
    assert main(["log", "trash", str(data), "--take-back", FOLDER]) == 1
    assert "in use" in capsys.readouterr().err
    assert main(["log", "trash", str(data), "--take-back", f"other-{ID}-0"]) == 1


def test_a_folder_without_logs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "trash", str(tmp_path)]) == 1
    assert "holds no logs" in capsys.readouterr().err
