"""`oncelog bench`: what it is told to do, and the result as one row; nothing done is exit code 1."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from oncelog_cli.load import bench_load
from oncelog_cli.main import build_parser
from tests.unit.cli.conftest import Oncelog


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """What the load was told; it has done as much as `--records` says."""
    seen: list[argparse.Namespace] = []

    async def run(_client: object, args: argparse.Namespace, _shown: bool) -> dict[str, Any]:
        seen.append(args)
        numbers = dict.fromkeys(("mb", "seconds", "records_per_s", "mb_per_s", "p50_ms", "p99_ms", "max_ms"), 1.5)
        more = {"transactions": 2, "transactions_per_s": 4.0} if args.action == "txn" else {}
        return {"bench": args.action, "records": args.records or 0, **numbers, "errors": {}, **more}

    monkeypatch.setattr(bench_load, "run", run)
    return seen


@pytest.mark.parametrize(("verb", "records"), [("produce", 100_000), ("consume", 100_000), ("txn", 10_000)])
def test_without_an_end_each_load_has_one(
    asked: list[argparse.Namespace], oncelog: Oncelog, verb: str, records: int
) -> None:
    assert oncelog("bench", verb).code == 0
    assert (asked[0].records, asked[0].duration) == (records, None)


def test_a_duration_is_end_enough(asked: list[argparse.Namespace], oncelog: Oncelog) -> None:
    said = oncelog("bench", "produce", "--duration", "2m")
    assert (asked[0].records, asked[0].duration) == (None, 120)
    assert said.code == 1, "nothing succeeded"


def test_the_result_is_one_row_with_transactions_where_there_are_any(
    asked: list[argparse.Namespace], oncelog: Oncelog
) -> None:
    produce = oncelog("bench", "produce", "--records", "7")
    assert produce.table[0][:3] == ["BENCH", "RECORDS", "MB"]
    assert produce.table[1][:2] == ["produce", "7"]
    assert oncelog("bench", "txn", "--records", "7").table[0][-1] == "TRANSACTIONS-PER-S"
    assert oncelog("bench", "txn", "--format", "json").data["transactions"] == 2


@pytest.mark.parametrize(
    "words",
    [
        "--records 0",
        "--producers 0",
        "--record-size x",
        "--batch-size -1",
        "--acks 2",
        "--compression gzip",
        "--duration soon",
    ],
)
def test_a_load_that_cannot_be_is_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["bench", "produce", *words.split()])
    assert ended.value.code == 2
