"""`oncelog up`: a cluster of real processes on this machine, in the foreground or, with `--detach`, without a terminal.

The supervisor (`oncelog_cli.laptop.supervisor`) is a program of its own: this process becomes it, or starts it and waits
until it says that all is ready.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from oncelog.errors import ClusterUnreachableError, ConfigError, ErrorCode, error_for
from oncelog_cli.laptop.up_state import DATA_DIR, LOG, UpState
from oncelog_cli.terminal.output import Printer, table
from oncelog_cli.terminal.parsing import Commands, Parser

SUPERVISOR: Final = "oncelog_cli.laptop.supervisor"
NEEDED: Final = ("oncelog_runtime", "etcd3", "grpc_health", "uvloop", "prometheus_client")
_STOP_S: Final = 60.0
_LOG_TAIL_LINES: Final = 5
_DETAILS: Final = """It runs in the foreground until Ctrl-C, and ends with the process that started it: with its terminal, and
with the script that put it into the background (it asks the kernel for that, PR_SET_PDEATHSIG; nohup and setsid do
not help).
With --detach it returns when the cluster is ready, and the cluster goes on without a terminal until `oncelog down`.

A process that ends is reported, and the cluster goes on without it: `oncelog status` shows it, `oncelog start NAME`
starts it again. All is kept in the data directory: the same directory gives the same cluster and the same ports again."""

_FIRST_PORT_MAX: Final = 65_000


def add_parser(commands: Commands) -> None:
    """This verb."""
    up = commands.on_this_machine().verb(
        "up",
        _run,
        "start a local cluster of real processes",
        ("oncelog up", "oncelog up --detach", "oncelog up --brokers 1 --first-port 0 --data-dir /tmp/try"),
        _DETAILS,
    )
    add_data_dir(up)
    up.add_argument("--detach", action="store_true", help="return when it is ready; it survives this terminal")
    up.add_argument("--brokers", type=int, default=3, help="number of brokers (default 3)")
    up.add_argument(
        "--first-port", type=_first_port, default=9092, help="brokers listen from here on; 0 = any free ports"
    )
    up.add_argument("--otlp-endpoint", default="", help="send traces there: http://host:4317 (default: none)")
    up.add_argument("--metrics", action="store_true", help="each service answers GET /metrics for Prometheus")


def _first_port(text: str) -> int:
    """There is room above it for the ports of all processes. Raises `ArgumentTypeError`."""
    try:
        port = int(text)
    except ValueError:
        port = -1
    if port != 0 and not 1 <= port <= _FIRST_PORT_MAX:
        raise argparse.ArgumentTypeError(f"0 for any free ports, or 1 to {_FIRST_PORT_MAX}")
    return port


def add_data_dir(parser: Parser) -> None:
    """`--data-dir`, by which a cluster of `oncelog up` is found."""
    parser.add_argument(
        "--data-dir",
        default=os.environ.get("ONCELOG_DATA_DIR") or DATA_DIR,
        metavar="FOLDER",
        help=f"where everything is kept (environment: ONCELOG_DATA_DIR; default ./{DATA_DIR})",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of the supervisor. `report_fd`: a detached one writes what happens there until it is ready; 0 = none."""

    data_dir: str
    brokers: int = 3
    first_port: int = 9092
    otlp_endpoint: str = ""
    metrics: bool = False
    style: str = "text"
    report_fd: int = 0

    def command(self) -> list[str]:
        """The supervisor's command line."""
        return [sys.executable, "-m", SUPERVISOR, json.dumps(dataclasses.asdict(self))]


def _run(args: argparse.Namespace, printer: Printer) -> int:
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise ConfigError("oncelog up needs the services and an etcd: pip install 'oncelog[local]'")
    options = UpOptions(
        str(Path(args.data_dir).resolve()),
        args.brokers,
        args.first_port,
        args.otlp_endpoint,
        args.metrics,
        printer.style,
    )
    if args.detach:
        return _detach(options, printer)
    sys.stdout.flush()
    command = options.command()
    return os.execv(command[0], command)


# ---------------------------------------------------------------- without a terminal


def _detach(options: UpOptions, printer: Printer) -> int:
    """Starts the supervisor in a session of its own. Ctrl-C until it is ready stops it."""
    reading, writing = os.pipe()
    log_path = _log_of(options.data_dir)
    handle = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    supervisor = subprocess.Popen(
        dataclasses.replace(options, report_fd=writing).command(),
        stdin=subprocess.DEVNULL,
        stdout=handle,
        stderr=handle,
        start_new_session=True,
        pass_fds=(writing,),
    )
    os.close(writing)
    os.close(handle)
    try:
        with os.fdopen(reading) as reports:
            _follow(reports, printer, log_path)
    except BaseException:
        supervisor.terminate()
        supervisor.wait(_STOP_S)
        raise
    state = UpState.read(Path(options.data_dir))
    assert state is not None, "it says that it is ready after it wrote this"
    announce(state, printer)
    return 0


def _log_of(data_dir: str) -> Path:
    """The folder is the owner's alone from its first moment, as the supervisor keeps it."""
    logs = Path(data_dir) / "logs"
    for folder in (logs.parent, logs):
        if not folder.exists():
            folder.mkdir(0o700, parents=True)
    return logs / LOG


def _follow(reports: Iterable[str], printer: Printer, log_path: Path) -> None:
    """Returns when the cluster is ready. Raises what the supervisor says, or `ClusterUnreachableError` when it just ended."""
    for line in reports:
        report = json.loads(line)
        if "error" in report:
            raise error_for(ErrorCode[report["error"]].value, report["message"], 0, report["context"])
        if report.get("ready"):
            return
        if printer.is_text:
            printer.text(report["progress"])
    tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
    raise ClusterUnreachableError(f"the supervisor ended before the cluster was ready:\n{tail}")


# ---------------------------------------------------------------- what is said when it is ready


def announce(state: UpState, printer: Printer) -> None:
    """Prints where each process runs, and what to paste next."""
    if not printer.is_text:
        listing = {member.name: member.address for member in state.members}
        answer: dict[str, object] = {"bootstrap_servers": state.bootstrap_servers, "processes": listing}
        if urls := {member.name: member.metrics_url for member in state.members if member.metrics_url}:
            answer["metrics"] = urls
        printer.data(answer | {"data_dir": state.data_dir, "detached": state.detached})
        return
    rows = [
        {"process": m.name, "address": m.address, "pid": m.process.pid if m.process else None, "metrics": m.metrics_url}
        for m in state.members
    ]
    columns = ("process", "address", "pid", *(("metrics",) if any(m.metrics_url for m in state.members) else ()))
    printer.text(table(rows, columns))
    printer.text(
        "access rules are off: every program that reaches these addresses may do everything (docs/security.md)"
    )
    printer.text(next_steps(state))


def next_steps(state: UpState) -> str:
    """Returns the lines to paste into a shell, and how to see a fail-over."""
    here = data_dir_flag(state.data_dir)
    lines = [
        f"ready; paste {'next' if state.detached else 'into another terminal'}:",
        f"  export ONCELOG_BOOTSTRAP_SERVERS={state.bootstrap_servers}",
        "  oncelog topic create hello --partitions 3 --if-not-exists",
        "  echo 'hello world' | oncelog produce hello",
        "  oncelog consume hello --until-end",
    ]
    if state.member("broker-1") is not None:
        lines += [
            "see a fail-over, then have the broker back:",
            f"  oncelog kill broker-1{here}",
            "  oncelog topic describe hello --partitions",
            f"  oncelog start broker-1{here}",
        ]
    return "\n".join((*lines, f"stop: oncelog down{here}" if state.detached else "stop: Ctrl-C"))


def data_dir_flag(data_dir: str) -> str:
    """Returns the flag that a command typed in this directory needs to find the cluster; empty when it needs none."""
    usual = Path(os.environ.get("ONCELOG_DATA_DIR") or DATA_DIR).resolve()
    return "" if Path(data_dir) == usual else f" --data-dir {shlex.quote(data_dir)}"
