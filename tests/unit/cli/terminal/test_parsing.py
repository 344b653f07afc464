"""Words and flags: what is known, what is refused and with which hint, and what loading them costs."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

import pytest

import oncelog
from oncelog_cli.main import build_parser, main

WRONG = [
    (("topic", "create", "x", "--partitons", "3"), "did you mean --partitions?"),
    (("topic", "create", "x", "--part", "3"), "unknown flag --part"),
    (("topic", "crate", "x"), "did you mean create?"),
    (("topics", "list"), "did you mean topic?"),
    (("version",), "did you mean --version?"),
    (("topic", "list", "--timeout-ms", "5x"), "write 5s"),
    (("bench", "produce", "--record-size", "1KB"), "write 1GiB"),
    (("topic", "list", "--format", "xml"), "choose from text, json, yaml, wide"),
    (("cluster", "health", "surplus"), "unexpected argument 'surplus'"),
    ((), "VERB"),
    (("topic", "create", "x", "--partitions", "99999999999"), "not a whole number from 0 to 2147483647"),
    (("topic", "add-partitions", "x", "--total", "99999999999"), "not a whole number"),
    (("partition", "transfer-leadership", "x/0", "--to", "99999999999"), "not a whole number"),
    (("node", "decommission", "99999999999"), "not a whole number"),
    (("bench", "produce", "--partitions", "99999999999"), "not a whole number"),
    (("verify", "--exporter", "70000"), "a port is 1 to 65535"),
    (("bench", "produce", "--duration", "nan"), "a duration is"),
    (("node", "drain", "--node", "1", "--timeout", "nan"), "a duration is"),
    (("topic", "list", "--watch", "--interval-s", "-1"), "a duration is"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_a_wrong_word_is_exit_code_2_and_a_hint(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: `oncelog --version` and `oncelog version` did not exist."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"oncelog {oncelog.__version__}\n")


def test_a_flag_in_milliseconds_takes_other_units_too() -> None:
    args = build_parser().parse_args(
        ["bench", "produce", "--timeout-ms", "5s", "--linger-ms", "1s", "--batch-size", "1MiB"]
    )
    assert (args.timeout_ms, args.linger_ms, args.batch_size) == (5_000, 1_000, 1 << 20)
    assert build_parser().parse_args(["topic", "list", "--timeout-ms", "5000"]).timeout_ms == 5_000


def verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every parser that runs something."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner and parser.get_default("run"):
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from verbs(child)


ON_THIS_MACHINE = {f"oncelog {verb}" for verb in ("up", "down", "status", "kill", "pause", "resume", "start")}
"""They speak to processes, not to brokers."""
ALL = {parser.prog: parser for parser in verbs(build_parser())}


@pytest.mark.parametrize("name", ALL)
def test_every_verb_has_the_common_flags_and_an_example_that_parses(name: str) -> None:
    parser = ALL[name]
    common = {"--data-dir"} if name in ON_THIS_MACHINE else {"--bootstrap-servers", "--timeout-ms"}
    assert {"--format", *common} <= set(parser._option_string_actions)
    assert parser.description
    assert parser.epilog, f"{name} has no example"
    assert name in parser.epilog


def test_help_loads_nothing_heavy() -> None:
    program = "import sys; from oncelog_cli.main import build_parser; build_parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"grpc", "pyarrow", "google.protobuf", "asyncio", "numpy", "yaml", "oncelog.client"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("debug", "bundle", "--output", "/nowhere/b.tar.gz", "--timeout-ms", "1"), "/nowhere/b.tar.gz: No such file"),
        (("topic", "list", "--ssl-cafile", "/nowhere/ca.pem"), "/nowhere/ca.pem cannot be read"),
        (("explain", "²"), "there is no error"),
        (("explain", "--", "--5"), "there is no error"),
        (("topic", "list", "--timeout-ms", "99999999999999"), "at most"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_1(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words]) == 1
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_a_format_of_the_environment_is_looked_at_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONCELOG_FORMAT", "xml")
    assert main(["explain", "90"]) == 1
    assert "one of text, json, yaml, wide" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["x/0"],
        ["x/0="],
        ["x/0=1,"],
        ["x/0=²"],
        ["x/0=99999999999"],
        ["x=1"],
        ["x/0=1", "--cancel"],
        ["x/0=", "--cancel"],
    ],
)
def test_a_move_that_says_too_little_or_too_much(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "reassign", *words]) == 2
    assert "TOPIC/PARTITION" in capsys.readouterr().err or words == ["x=1"]
