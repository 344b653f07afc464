"""`oncelog down|status|kill|pause|resume|start`: the cluster of `oncelog up` on this machine, found by its data directory.

Rule 1: signals go to processes that the supervisor wrote down, and only while they are the very same (`process_id`).
Rule 2: processes are started by the supervisor alone, which is asked (`up_state`).
"""

from __future__ import annotations

import argparse
import difflib
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from oncelog.errors import ClusterUnreachableError, InvalidRequestError, OncelogError, RequestTimedOutError
from oncelog_cli.laptop.up import add_data_dir, data_dir_flag
from oncelog_cli.laptop.up_state import Member, UpState, end_all, leftovers, request_start, withdraw
from oncelog_cli.terminal.argument_types import UsageError
from oncelog_cli.terminal.output import Printer, table
from oncelog_cli.terminal.parsing import Commands, Noun, Run
from oncelog_cli.terminal.progress import seconds

_COLUMNS: Final = ("process", "state", "address", "pid", "since_ms", "ended")
_WIDE: Final = ("metrics_url", "last_words")
_LOOK_S: Final = 0.05
_STOP_S: Final = 60.0
_START_S: Final = 60.0
_LEFTOVER_GRACE_S: Final = 10.0


def add_parser(commands: Commands) -> None:
    """These verbs."""
    noun = commands.on_this_machine()
    status = noun.verb(
        "status",
        _status,
        "the processes of the local cluster",
        ("oncelog status", "oncelog status --format json"),
        "Exit code 0: all of them run. 1: one does not (dead, or paused), or there is no cluster.",
    )
    add_data_dir(status)
    down = noun.verb(
        "down",
        _down,
        "stop the local cluster",
        ("oncelog down", "oncelog down --data-dir /tmp/try"),
        "The data is kept: `oncelog up` with the same data directory goes on with them.",
    )
    add_data_dir(down)
    down.add_argument("--timeout", type=seconds, default=_STOP_S, help="give up after this long (default 60s)")
    _add_named(noun, "kill", _kill, "end processes as a crash does (SIGKILL)", "kill broker-1")
    _add_named(noun, "pause", _pause, "freeze processes as a hanging machine does (SIGSTOP)", "pause broker-1")
    _add_named(noun, "resume", _resume, "let paused processes go on", "resume broker-1")
    start = _add_named(noun, "start", _start, "start processes that have ended", "start broker-1")
    start.add_argument("--timeout", type=seconds, default=_START_S, help="give up after this long (default 60s)")


def _add_named(noun: Noun, verb: str, run: Run, what: str, example: str) -> argparse.ArgumentParser:
    examples = (f"oncelog {example}", f"oncelog {verb} coordinator-0 etcd")
    parser = noun.verb(verb, run, f"{what}, in the local cluster", examples)
    parser.add_argument("process", nargs="+", help="as `oncelog status` names them: broker-1, coordinator-0, etcd")
    add_data_dir(parser)
    return parser


# ---------------------------------------------------------------- looking


def _folder(args: argparse.Namespace) -> Path:
    return Path(args.data_dir).resolve()


def _running(args: argparse.Namespace) -> UpState:
    """Raises `ClusterUnreachableError` when there is none."""
    state = UpState.read(_folder(args))
    if state is None or not state.is_running_in(_folder(args)):
        raise ClusterUnreachableError(_nothing_runs(args))
    return state


def _nothing_runs(args: argparse.Namespace) -> str:
    return f"no cluster runs on {_folder(args)}: start one with `oncelog up`, or name its folder with --data-dir"


def _row(member: Member) -> dict[str, object]:
    alive = member.state != "dead"
    return {
        "process": member.name,
        "state": member.state,
        "address": member.address,
        "pid": member.process.pid if member.process is not None and alive else None,
        "since_ms": member.since_ms if alive else None,
        "ended": "" if alive else member.ended,
        "metrics_url": member.metrics_url,
        "last_words": "" if alive else member.last_words,
    }


def _status(args: argparse.Namespace, printer: Printer) -> int:
    state = UpState.read(_folder(args))
    running = state is not None and state.is_running_in(_folder(args))
    rows = [_row(member) for member in state.members] if state is not None and running else []
    well = sum(row["state"] == "running" for row in rows)
    if not printer.is_text:
        printer.data(
            {
                "running": running,
                "ready": running and state is not None and state.ready,
                "detached": running and state is not None and state.detached,
                "data_dir": str(_folder(args)),
                "bootstrap_servers": state.bootstrap_servers if state is not None and running else "",
                "processes": rows,
            }
        )
    elif state is None or not running:
        printer.text(_nothing_runs(args))
    else:
        _show(state, rows, well, printer)
    return 0 if running and well == len(rows) else 1


def _show(state: UpState, rows: list[dict[str, object]], well: int, printer: Printer) -> None:
    printer.text(table(rows, (*_COLUMNS, *_WIDE) if printer.style == "wide" else _COLUMNS))
    ready = "" if state.ready else "; it is not ready yet"
    printer.text(f"\n{well} of {len(rows)} processes run; bootstrap servers {state.bootstrap_servers}{ready}")
    here = data_dir_flag(state.data_dir)
    for verb, wanted in (("start", "dead"), ("resume", "paused")):
        names = [str(row["process"]) for row in rows if row["state"] == wanted]
        if names and state.ready:
            printer.text(f"{', '.join(names)}: {wanted}; oncelog {verb} {' '.join(names)}{here}")


# ---------------------------------------------------------------- stopping all


def _down(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 0 also when nothing runs: then it is as it should be."""
    folder = _folder(args)
    state = UpState.read(folder)
    if state is not None and not state.belongs_to(folder):
        state = None
    if state is not None and state.supervisor.send(signal.SIGTERM, signal.SIGCONT):
        _wait(lambda: not state.is_running, args.timeout, f"the cluster on {folder} is still stopping; try again")
        stopped, sentence = True, "stopped"
    else:
        stopped = bool(state is not None and end_all(leftovers(state), _LEFTOVER_GRACE_S))
        sentence = "ended what a killed supervisor left" if stopped else f"no cluster runs on {folder}"
    printer.value({"data_dir": str(folder), "stopped": stopped}, sentence)
    return 0


def _wait(condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    """Raises `RequestTimedOutError`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise RequestTimedOutError(otherwise)
        time.sleep(_LOOK_S)


# ---------------------------------------------------------------- one by one


def _each(args: argparse.Namespace, printer: Printer, work: Callable[[UpState, Member], str]) -> int:
    """Checks all names, then works on one after the other. Exit code 1 when one could not be done."""
    state = _running(args)
    members = [_named(state, name) for name in dict.fromkeys(args.process)]
    rows: list[dict[str, object]] = []
    failed = False
    for member in members:
        try:
            sentence = work(state, member)
        except OncelogError as error:
            failed = True
            rows.append({"process": member.name, "error": error.code.name, "message": str(error)})
            printer.complain(f"error {error.code.name}: {error}")
            continue
        now = UpState.read(_folder(args))
        rows.append(_row(now.member(member.name) or member) if now is not None else {"process": member.name})
        if printer.is_text:
            printer.text(sentence)
    if not printer.is_text:
        printer.data(rows)
    return 1 if failed else 0


def _named(state: UpState, name: str) -> Member:
    member = state.member(name)
    if member is None:
        names = [member.name for member in state.members]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no process {name!r}; {hint}There are {', '.join(names)}")
    return member


def _require_alive(state: UpState, member: Member) -> None:
    if member.state == "dead":
        here = data_dir_flag(state.data_dir)
        raise InvalidRequestError(f"{member.name} does not run; start it: oncelog start {member.name}{here}")


def _kill(args: argparse.Namespace, printer: Printer) -> int:
    def kill(state: UpState, member: Member) -> str:
        _require_alive(state, member)
        assert member.process is not None, "who is alive was started"
        member.process.send(signal.SIGKILL)
        _wait(lambda: _is_told_dead(state, member), _STOP_S, f"{member.name} has not ended")
        here = data_dir_flag(state.data_dir)
        return f"{member.name} killed (pid {member.process.pid}); start it again: oncelog start {member.name}{here}"

    return _each(args, printer, kill)


def _is_told_dead(state: UpState, member: Member) -> bool:
    """It is gone, and the supervisor has noticed: what is asked next sees it."""
    if member.state != "dead":
        return False
    now = UpState.read(Path(state.data_dir))
    told = now.member(member.name) if now is not None else None
    return told is None or bool(told.ended) or told.process != member.process or not state.is_running


def _pause(args: argparse.Namespace, printer: Printer) -> int:
    return _each(args, printer, lambda state, member: _signalled(state, member, signal.SIGSTOP, "paused", "resume"))


def _resume(args: argparse.Namespace, printer: Printer) -> int:
    return _each(args, printer, lambda state, member: _signalled(state, member, signal.SIGCONT, "running", ""))


def _signalled(state: UpState, member: Member, number: signal.Signals, wanted: str, back: str) -> str:
    _require_alive(state, member)
    assert member.process is not None, "who is alive was started"
    member.process.send(number)
    _wait(lambda: member.state in (wanted, "dead"), _STOP_S, f"{member.name} is not {wanted}")
    _require_alive(state, member)
    hint = f"; let it go on: oncelog {back} {member.name}{data_dir_flag(state.data_dir)}" if back else ""
    return f"{member.name} {'goes on' if wanted == 'running' else wanted}{hint}"


def _start(args: argparse.Namespace, printer: Printer) -> int:
    return _each(args, printer, lambda state, member: _started(state, member, args.timeout))


def _started(state: UpState, member: Member, timeout_s: float) -> str:
    """Returns when the new process listens. Raises `InvalidRequestError`, or `ClusterUnreachableError` when it ended."""
    folder = Path(state.data_dir)
    if member.state != "dead":
        hint = f"is paused; let it go on: oncelog resume {member.name}{data_dir_flag(state.data_dir)}"
        raise InvalidRequestError(f"{member.name} {hint if member.state == 'paused' else 'runs already'}")

    def now() -> Member:
        current = UpState.read(folder)
        return (current.member(member.name) if current is not None else None) or member

    def is_there() -> bool:
        found = now()
        if found.process != member.process and found.ended:
            raise ClusterUnreachableError(f"{member.name} ended at once ({found.ended}): {found.last_words}")
        return found.process != member.process and _listens(found.address)

    request_start(folder, member.name)
    try:
        _wait(is_there, timeout_s, f"{member.name} does not listen yet; see {folder / 'logs' / member.name}.log")
    finally:
        withdraw(folder, member.name)
    process = now().process
    return f"{member.name} started" + (f" (pid {process.pid})" if process is not None else "")


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
