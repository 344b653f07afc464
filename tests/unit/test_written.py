"""A generated file is written where it is out of date, and with `--check` only told of (scripts/written.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import written


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, str]:
    """One file as it should be, one that is old, one that is not there."""
    monkeypatch.setattr(written, "ROOT", tmp_path)
    (tmp_path / "same").write_text("a")
    (tmp_path / "old").write_text("b")
    return {tmp_path / "same": "a", tmp_path / "old": "new", tmp_path / "folder" / "none": "c"}


def test_a_check_names_what_is_out_of_date_and_writes_nothing(
    files: dict[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert written.write_or_check(files, "things", "python -m scripts.gen_things", ["--check"]) == 1
    assert capsys.readouterr().err == "out of date: old, folder/none; run python -m scripts.gen_things\n"
    assert [path.read_text() for path in files if path.exists()] == ["a", "b"]


def test_what_was_written_passes_the_check(files: dict[Path, str]) -> None:
    assert written.write_or_check(files, "things", "it", []) == 0
    assert {path: path.read_text() for path in files} == files
    assert written.write_or_check(files, "things", "it", ["--check"]) == 0
