"""`oncelog up`: starts a local cluster and stays with it.

Rule 1: one supervisor for a data directory, and `up.json` says who it is (`oncelog_cli.laptop.up_state`).
Rule 2: a process that ends is reported, with its last words, and the cluster goes on without it; it is started again
        only by a request, never in silence.
Rule 3: in the foreground it ends with the shell that started it; a detached one ends by SIGTERM (`oncelog down`) alone.
        Its processes end with it in either case; what outlived a killed one is ended before anything starts.
Rule 4: a signal also ends a start that is under way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from oncelog.errors import ConfigError, OncelogError, StorageError
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalProcess
from oncelog_cli.laptop.process_id import ProcessId
from oncelog_cli.laptop.up import UpOptions, announce, data_dir_flag
from oncelog_cli.laptop.up_state import Member, UpState, end_all, leftovers, take_requests
from oncelog_cli.terminal.output import Printer
from oncelog_runtime.adapters.child import die_with_parent
from oncelog_runtime.adapters.files.private_files import FILE_MODE, take_folder

_LOOK_S: Final = 0.2
_LOCK_WAIT_S: Final = 2.0
_LEFTOVER_GRACE_S: Final = 10.0


class _StopRequested(BaseException):
    """A signal came while the cluster was starting."""


class Supervisor:
    """One run of `oncelog up`."""

    def __init__(self, options: UpOptions, say: Callable[[str], None]) -> None:
        self._options = options
        self._data_dir = Path(options.data_dir)
        self._say = say
        self._stopping = False
        self._interruptible = False
        own = ProcessId.of(os.getpid())
        assert own is not None, "we live"
        self._state = UpState(options.data_dir, own, detached=bool(options.report_fd))
        self._cluster: LocalCluster | None = None

    # ------------------------------------------------------------ life

    def run(self, ready: Callable[[UpState], None]) -> None:
        """Returns after a signal. Raises `OncelogError` when the cluster does not come up."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        with contextlib.suppress(_StopRequested), contextlib.ExitStack() as stack:
            stack.callback(os.close, _lock(self._data_dir))
            self._end_leftovers()
            take_requests(self._data_dir)
            self._state.write()
            self._cluster = cluster = self._make()
            stack.callback(self._note)
            stack.callback(self._stop)
            self._start(cluster)
            self._note(ready=True)
            ready(self._state)
            self._watch(cluster)

    def _make(self) -> LocalCluster:
        options = self._options
        return LocalCluster(
            self._data_dir,
            brokers=options.brokers,
            first_port=options.first_port,
            flags=("--otlp-endpoint", options.otlp_endpoint) if options.otlp_endpoint else (),
            metrics=options.metrics,
        )

    def _start(self, cluster: LocalCluster) -> None:
        self._interruptible = True
        if self._stopping:
            raise _StopRequested
        cluster.start(self._tell_progress)
        self._interruptible = False

    def _tell_progress(self, text: str) -> None:
        self._note()
        self._say(text)

    def _stop(self) -> None:
        self._interruptible = False
        assert self._cluster is not None, "made before"
        if any(process.running for process in self._cluster.processes.values()):
            self._say("stopping")
            self._cluster.stop()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True
        if self._interruptible:
            self._interruptible = False
            raise _StopRequested

    def _end_leftovers(self) -> None:
        before = UpState.read(self._data_dir)
        if before is not None and (count := end_all(leftovers(before), _LEFTOVER_GRACE_S)):
            self._say(f"a killed supervisor had left {count} of its processes: ended")

    # ------------------------------------------------------------ watching

    def _watch(self, cluster: LocalCluster) -> None:
        told: set[int] = set()
        while not self._stopping:
            for process in cluster.dead():
                assert process.popen is not None, "dead ones were started"
                if process.popen.pid not in told:
                    told.add(process.popen.pid)
                    self._note_if_possible()
                    self._say(self._obituary(process))
            for name in take_requests(self._data_dir):
                self._start_again(cluster, name)
            time.sleep(_LOOK_S)

    def _start_again(self, cluster: LocalCluster, name: str) -> None:
        process = cluster.processes.get(name)
        if process is None or process.running:
            return
        try:
            cluster.restart(name)
        except OSError as error:
            self._say(f"{name} cannot be started: {error}")
            return
        self._note_if_possible()
        self._say(f"{name} started again (pid {process.popen.pid if process.popen else 0})")

    def _obituary(self, process: LocalProcess) -> str:
        how = ended(process)
        words = "" if how == "SIGKILL" else f": {process.last_words()}"
        again = f"oncelog start {process.name}{data_dir_flag(self._options.data_dir)}"
        return f"{process.name} ended ({how}){words}\nthe cluster goes on without it; start it again: {again}"

    # ------------------------------------------------------------ what is written down

    def _note_if_possible(self) -> None:
        """A full disk may be what a process died of; the others go on."""
        try:
            self._note()
        except OSError as error:
            self._say(f"what runs here cannot be written down: {error}")

    def _note(self, ready: bool | None = None) -> None:
        cluster = self._cluster
        assert cluster is not None, "made before"
        known = {member.name: member for member in self._state.members}
        self._state = dataclasses.replace(
            self._state,
            bootstrap_servers=cluster.bootstrap_servers,
            ready=self._state.ready if ready is None else ready,
            members=tuple(_member(process, known.get(process.name)) for process in cluster.processes.values()),
        )
        self._state.write()


def _member(process: LocalProcess, known: Member | None) -> Member:
    """Returns the entry of a process for up.json. `known`: the entry before; a process that still runs keeps its identity."""
    if process.popen is None:
        return Member(process.name, process.address, metrics_url=process.metrics_url)
    pid = process.popen.pid
    identity = ProcessId.of(pid)
    if (
        known is not None
        and known.process is not None
        and known.process.pid == pid
        and identity in (None, known.process)
    ):
        if process.running:
            return known
        identity = known.process
    else:
        # No other process gets this pid before we have asked for the end of this one; without an identity it has ended already.
        identity = identity or ProcessId(pid, "")
    how = ended(process)
    words = process.last_words() if how and how != "SIGKILL" else ""
    return Member(process.name, process.address, identity, process.started_ms, how, words, process.metrics_url)


def ended(process: LocalProcess) -> str:
    """How a process ended: the signal's name, or its exit code; empty while it lives."""
    code = process.popen.poll() if process.popen is not None else None
    if code is None:
        return ""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _lock(data_dir: Path) -> int:
    """Held until the process ends. Raises `StorageError` while another one has it; one that is ending is waited for."""
    take_folder(data_dir)
    handle = os.open(data_dir / "up.lock", os.O_CREAT | os.O_RDWR, FILE_MODE)
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError:
            if time.monotonic() >= deadline:
                os.close(handle)
                raise StorageError(
                    f"another `oncelog up` runs on {data_dir}: see `oncelog status`, stop it with `oncelog down`, or choose "
                    "another folder with --data-dir",
                    reason="locked",
                ) from None
        time.sleep(_LOOK_S / 4)


# ---------------------------------------------------------------- the process


def _named(error: OncelogError | OSError) -> OncelogError:
    """Makes an error of a folder or a program that the user named and that cannot be used."""
    if isinstance(error, OncelogError):
        return error
    where = f"{error.filename}: " if error.filename else ""
    return ConfigError(f"{where}{error.strerror or error}")


def _told(error: OncelogError) -> dict[str, object]:
    return {"error": error.code.name, "message": error.message, "context": error.context}


def _run_attached(options: UpOptions) -> int:
    die_with_parent()
    printer = Printer(options.style)

    def say(text: str) -> None:
        """For people; programs get one document, when all is ready."""
        if printer.is_text:
            printer.text(text)
        else:
            printer.complain(text)

    try:
        Supervisor(options, say).run(lambda state: announce(state, printer))
    except (OncelogError, OSError) as error:
        named = _named(error)
        Printer(options.style, sys.stderr).value(_told(named), f"oncelog up: {named}")
        return 1
    return 0


def _run_detached(options: UpOptions) -> int:
    """Reports what happens to the process that started it until it is ready; everything goes to `logs/up.log` too."""
    reports = os.fdopen(options.report_fd, "w", buffering=1)

    def report(value: dict[str, object]) -> None:
        with contextlib.suppress(
            BrokenPipeError, ValueError
        ):  # the pipe has no reader any more; it was closed when all was ready
            reports.write(json.dumps(value) + "\n")

    def note(text: str) -> None:
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}", flush=True)

    def say(text: str) -> None:
        note(text)
        report({"progress": text})

    def ready(state: UpState) -> None:
        note(f"ready: {state.bootstrap_servers}")
        report({"ready": True})
        with contextlib.suppress(BrokenPipeError):
            reports.close()

    try:
        Supervisor(options, say).run(ready)
    except (OncelogError, OSError) as error:
        note(f"failed: {error}")
        report(_told(_named(error)))
        return 1
    return 0


def main(arguments: list[str]) -> NoReturn:
    """`arguments`: the options, as `UpOptions.command` writes them."""
    options = UpOptions(**json.loads(arguments[0]))
    sys.exit(_run_detached(options) if options.report_fd else _run_attached(options))


if __name__ == "__main__":
    main(sys.argv[1:])
