"""Words and flags: what is known, what is refused and with which hint, and what loading them costs."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

import pytest

from oncelog.cli.main import build_parser

WRONG = [
    (("topic", "create", "x", "--partitons", "3"), "did you mean --partitions?"),
    (("topic", "create", "x", "--part", "3"), "unknown flag --part"),
    (("topic", "crate", "x"), "did you mean create?"),
    (("topics", "list"), "did you mean topic?"),
    (("topic", "list", "--format", "xml"), "choose from text, json, yaml, wide"),
    (("cluster", "health", "surplus"), "unexpected argument 'surplus'"),
    ((), "VERB"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_a_wrong_word_is_exit_code_2_and_a_hint(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every parser that runs something."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner and parser.get_default("run"):
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from verbs(child)


ALL = {parser.prog: parser for parser in verbs(build_parser())}


@pytest.mark.parametrize("name", ALL)
def test_every_verb_has_the_common_flags_and_an_example_that_parses(name: str) -> None:
    parser = ALL[name]
    assert {"--format", "--bootstrap-servers", "--timeout-ms"} <= set(parser._option_string_actions)
    assert parser.description
    assert parser.epilog, f"{name} has no example"
    assert name in parser.epilog


def test_help_loads_nothing_heavy() -> None:
    program = "import sys; from oncelog.cli.main import build_parser; build_parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"grpc", "pyarrow", "google.protobuf", "asyncio", "numpy", "yaml", "oncelog.client"}
    assert not heavy & set(loaded)
