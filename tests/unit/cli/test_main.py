"""The entry point: whatever a verb raises is one line and an exit code, and nothing heavy is loaded for help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from oncelog import __version__
from oncelog.errors import ConfigError, NotLeaderError
from oncelog_cli.main import VERBS, build_parser, main
from oncelog_cli.support import explain
from oncelog_cli.terminal.argument_types import UsageError


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `oncelog explain` raise this."""

    def ends_with(error: BaseException) -> None:
        def run(*_: object) -> int:
            raise error

        monkeypatch.setattr(explain, "_run", run)

    return ends_with


def test_the_verbs_that_are_listed_are_those_that_there_are() -> None:
    shown = set(build_parser().format_help().split())
    assert {module.__name__.rpartition(".")[2] for module in VERBS} - {"laptop"} <= shown
    assert len(set(VERBS)) == len(VERBS)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("name one topic"), 2, "oncelog: name one topic\n"),
        (NotLeaderError("moved", leader=3), 1, "error NOT_LEADER_OR_FOLLOWER: moved (leader=3)\n"),
        (ConfigError("no such option"), 1, "error INVALID_CONFIG: no such option\n"),
        (FileNotFoundError(2, "No such file or directory", "a.pem"), 1, "error INVALID_CONFIG: a.pem: No such file or"),
        (OSError("the disk is full"), 1, "error INVALID_CONFIG: the disk is full\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda item: type(item).__name__,
)
def test_what_a_verb_raises_is_one_line_and_an_exit_code(
    raising: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    raising(error)
    assert main(["explain", "90"]) == code
    out, err = capsys.readouterr()
    assert (out, err.startswith(said)) == ("", True)
    assert err.count("\n") == (1 if said else 0)


def test_programs_get_an_error_as_they_get_everything_else(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(NotLeaderError("moved", leader=3))
    assert main(["explain", "90", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().err) == {
        "error": "NOT_LEADER_OR_FOLLOWER",
        "message": "moved",
        "context": {"leader": "3"},
    }


def test_a_defect_of_ours_is_not_hidden_in_a_line(raising: Callable[[BaseException], None]) -> None:
    raising(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["explain", "90"])


def test_the_module_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_cli", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"oncelog {__version__}\n"
    wrong = subprocess.run(
        [sys.executable, "-m", "oncelog_cli", "explain", "77777"], capture_output=True, check=False, timeout=60
    )
    assert wrong.returncode == 1


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """As `oncelog ... | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "oncelog_cli", "explain", "--list"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_standard_input_that_is_closed_is_an_empty_one() -> None:
    """As `oncelog ... <&-`, and as some programs start others."""
    code = "from oncelog_cli.main import main; import sys; main(['completion', 'bash']); sys.exit(sys.stdin.isatty())"
    done = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "{code}" <&-'], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_help_loads_neither_grpc_nor_arrow() -> None:
    code = (
        "import sys; from oncelog_cli.main import build_parser; build_parser();"
        "sys.exit(bool({'grpc', 'pyarrow', 'google.protobuf', 'asyncio'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
