"""One action on several names: each has its own outcome, and one failure does not keep the others from it."""

from __future__ import annotations

import asyncio
import json

import pytest

from oncelog.errors import UnknownTopicError
from oncelog_cli.terminal.bulk import Outcome, each
from oncelog_cli.terminal.output import Printer


async def work(name: str) -> Outcome:
    if name == "bad":
        raise UnknownTopicError("no such topic", topic=name)
    return {"length": len(name)}, f"{name} is done"


def run(names: list[str], style: str) -> int:
    return asyncio.run(each(names, "name", work, Printer(style)))


def test_people_read_a_sentence_for_each_and_failures_aside(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["a", "bad", "c"], "text") == 1
    out, err = capsys.readouterr()
    assert out == "a is done\nc is done\n"
    assert "error UNKNOWN_TOPIC_OR_PARTITION: no such topic (topic=bad)" in err


def test_programs_get_one_row_for_each_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["a", "bad", "ccc"], "json") == 1
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a", "length": 1},
        {"name": "bad", "error": "UNKNOWN_TOPIC_OR_PARTITION", "message": "no such topic (topic=bad)"},
        {"name": "ccc", "length": 3},
    ]


@pytest.mark.parametrize("names", [["a", "b"], []])
def test_without_a_failure_the_exit_code_is_0(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(names, "text") == 0


def test_what_nobody_foresaw_is_not_taken_for_the_clusters_refusal() -> None:
    async def broken(_name: str) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(each(["a"], "name", broken, Printer("text")))
