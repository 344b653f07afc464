"""The tables of states in docs/internals are those of the code, and no table of the code is left out."""

from __future__ import annotations

import enum
import shutil
from pathlib import Path

import pytest

from scripts import gen_state_tables
from scripts.gen_state_tables import TABLES, StateTableError, Table


class Door(enum.Enum):
    """Any states."""

    OPEN = 1
    SHUT = 2
    GONE = 3


class Hand(enum.Enum):
    """Any triggers."""

    PUSH = "a push"
    PULL = "a pull"


PAIRS = {(Door.SHUT, Door.OPEN): (Hand.PULL,), (Door.OPEN, Door.SHUT): (Hand.PUSH, Hand.PULL)}
PICTURED = {
    (Door.OPEN, Door.SHUT): (Hand.PUSH, Hand.PULL),
    (Door.SHUT, Door.SHUT): (Hand.PULL,),
    (Door.SHUT, Door.GONE): (Hand.PUSH,),
    (Door.GONE, Door.OPEN): (Hand.PUSH,),
}
PREVIOUS = {Door.GONE: (Door.SHUT,), Door.SHUT: (Door.OPEN,), Door.OPEN: (Door.SHUT,)}
INCIDENTS = {Door.OPEN: {Hand.PUSH: Door.SHUT, Hand.PULL: Door.SHUT}, Door.SHUT: {Hand.PULL: Door.OPEN}}
NEXT = {Door.SHUT: (Door.OPEN, Door.GONE), Door.OPEN: (Door.SHUT,)}


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pages, to be changed."""
    pages = tmp_path / "docs" / "internals"
    shutil.copytree(gen_state_tables.PAGES, pages)
    monkeypatch.setattr(gen_state_tables, "PAGES", pages)
    return pages


def test_the_pages_are_what_the_code_says() -> None:
    assert gen_state_tables.main(["--check"]) == 0, "run python -m scripts.gen_state_tables"


def test_every_table_of_the_code_is_found() -> None:
    assert gen_state_tables.found() == {(table.module, table.attribute) for table in TABLES}


def test_a_step_with_triggers_is_a_row() -> None:
    assert rows("PAIRS", gen_state_tables.by_pair) == [
        "| from | to | taken by |",
        "|---|---|---|",
        "| OPEN | SHUT | a push; a pull |",
        "| SHUT | OPEN | a pull |",
    ]


def test_a_picture_has_an_arrow_for_each_step() -> None:
    assert Table("any", __name__, "PICTURED", gen_state_tables.by_pair).pictured().splitlines()[1:10] == [
        "```text",
        " OPEN   SHUT   GONE",
        "   |      |      |",
        "   |----->|      |   a push",
        "   |      |      |   or a pull",
        "   |      @      |   a pull",
        "   |      |----->|   a push",
        "   |<------------|   a push",
        "```",
    ]


def test_the_guide_of_channels_pictures_what_happens_to_a_record() -> None:
    path = gen_state_tables.PAGES.parent / "channels.md"
    assert "<!-- picture: channel-record -->" in path.read_text(encoding="utf-8")
    assert path in gen_state_tables.pages(), "it is checked with the others"


def test_a_picture_that_is_out_of_date_is_found_and_drawn_again(copy: Path) -> None:
    page = copy.parent / "transactions.md"
    page.write_text("<!-- picture: suspect -->\nold\n<!-- end of picture -->\n", encoding="utf-8")
    assert gen_state_tables.main(["--check"]) == 1
    assert gen_state_tables.main([]) == 0
    assert "it answered a probe" in page.read_text(encoding="utf-8")
    assert gen_state_tables.main(["--check"]) == 0


def test_a_table_of_incidents_is_drawn_as_one_of_pairs() -> None:
    assert rows("INCIDENTS", gen_state_tables.by_incident) == rows("PAIRS", gen_state_tables.by_pair)


def test_a_table_of_previous_states_and_one_of_next_states_are_drawn_alike() -> None:
    drawn = rows("PREVIOUS", gen_state_tables.by_previous)
    assert drawn == rows("NEXT", gen_state_tables.by_next)
    assert drawn[2:] == ["| OPEN | SHUT |", "| SHUT | OPEN, GONE |", "| GONE | nothing: it is final |"]


def rows(attribute: str, steps: object) -> list[str]:
    """The drawn table of one of the mappings above."""
    text = Table("any", __name__, attribute, steps).drawn()  # type: ignore[arg-type]
    return [line for line in text.splitlines() if line.startswith("|")]


def test_a_page_that_was_edited_is_noticed_and_mended(copy: Path) -> None:
    page = copy / "states.md"
    sound = page.read_text()
    page.write_text(sound.replace("| PREPARE_COMMIT | COMPLETE_COMMIT |", "| PREPARE_COMMIT | COMPLETE_ABORT |"))
    assert page.read_text() != sound
    assert gen_state_tables.pages()[page] == sound


def test_a_table_that_no_page_shows_is_noticed(copy: Path) -> None:
    for page in copy.glob("*.md"):
        page.write_text(page.read_text().replace("<!-- states: producer-transaction -->", ""))
    with pytest.raises(StateTableError, match="shows producer-transaction"):
        gen_state_tables.pages()


def test_a_table_that_is_not_registered_is_noticed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gen_state_tables, "TABLES", TABLES[:1])
    with pytest.raises(StateTableError, match="no table 'producer-transaction'"):
        gen_state_tables.redrawn((copy / "states.md").read_text())
    page = copy / "states.md"
    page.write_text(page.read_text().partition("<!-- states: producer-transaction -->")[0])
    with pytest.raises(StateTableError, match="_VALID_PREVIOUS"):
        gen_state_tables.pages()
