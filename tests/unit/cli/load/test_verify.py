"""`oncelog verify`: the verdict of a run is its exit code, and `--exporter` never ends by itself."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from oncelog_cli.load import verify_load
from oncelog_cli.main import build_parser
from tests.unit.cli.conftest import Oncelog

GOOD: dict[str, Any] = {
    "committed": 5, "aborted": 1, "unknown": 0, "records": 100, "seconds": 2.0, "failed_calls": {"NETWORK_ERROR": 1},
    "end_to_end_ms": {"p50": 1.0, "p99": 2.0, "max": 3.0}, "anomalies": [],
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """What the run was told; it ends well."""
    seen: list[argparse.Namespace] = []

    async def verify(_client: object, args: argparse.Namespace, _shown: bool) -> dict[str, Any]:
        seen.append(args)
        return GOOD

    async def export(_client: object, args: argparse.Namespace, _printer: object) -> int:
        seen.append(args)
        return 7

    monkeypatch.setattr(verify_load, "verify", verify)
    monkeypatch.setattr(verify_load, "export", export)
    return seen


def test_a_run_that_was_exactly_once_is_exit_code_0_unless_it_is_strict_about_failed_calls(
    asked: list[argparse.Namespace], oncelog: Oncelog
) -> None:
    said = oncelog("verify")
    assert (said.code, said.out.splitlines()[-1]) == (0, "exactly once")
    assert oncelog("verify", "--strict").code == 1
    assert oncelog("verify", "--format", "json").data == GOOD


def test_the_exporter_runs_instead_of_one_run(asked: list[argparse.Namespace], oncelog: Oncelog) -> None:
    assert oncelog("verify", "--exporter", "9200").code == 7
    assert asked[0].exporter == 9_200


def test_the_defaults_are_those_of_the_help() -> None:
    args = build_parser().parse_args(["verify"])
    assert (args.duration, args.producers, args.txn_size, args.record_size) == (10.0, 4, 20, 100)
    assert (args.abort_rate, args.rate, args.strict, args.exporter) == (0.1, 0.0, False, None)


@pytest.mark.parametrize("words", ["--abort-rate 1.5", "--producers 0", "--exporter 70000", "--duration x"])
def test_a_run_that_cannot_be_is_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["verify", *words.split()])
    assert ended.value.code == 2
