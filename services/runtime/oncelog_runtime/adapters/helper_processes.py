"""Starts helpers as processes of their own: a second interpreter has a lock of its own, so no thread of ours waits for it.

Rule 1: a helper runs `helper_main` on the same modules, with one socket to us as its only inheritance.
Rule 2: it is started by vfork, from the thread of the event loop: a fork would copy the page tables of this process, and the
        kernel ends a helper when the thread that started it ends.
Rule 3: a helper that was killed is waited for beside everything else. One that the kernel cannot end yet, since its disk hangs,
        holds up nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

from oncelog_runtime.adapters.helper_channel import SocketChannel
from oncelog_runtime.ports import HelperGoneError, HelperWork

_MAIN: Final = "oncelog_runtime.adapters.helper_main"
_REAP_S: Final = 0.02
_REAP_MAX_S: Final = 30.0


class HelperProcess(SocketChannel):
    """Implements `oncelog_runtime.ports.Helper`."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """See `Helper.kill`."""
        self.close()
        if self.process.poll() is None:
            self.process.kill()
            self._reap(_REAP_S)

    def _reap(self, wait_s: float) -> None:
        if self.process.poll() is None:
            loop = asyncio.get_running_loop()
            loop.call_later(wait_s, self._reap, min(2 * wait_s, _REAP_MAX_S))


class HelperProcesses:
    """Implements `oncelog_runtime.ports.Helpers` for the process that holds the data directory `root`."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)

    async def start(self, work: HelperWork) -> HelperProcess:
        """See `Helpers.start`. `work` is found by its name, so it is a function of a module."""
        entry = f"{work.__module__}:{getattr(work, '__qualname__', '')}"
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = self._spawn(theirs, [str(os.getpid()), str(self._root), entry, uuid.uuid4().hex])
            except OSError as error:
                ours.close()
                raise HelperGoneError(f"no process can be started: {error.strerror}") from error
        helper = await HelperProcess.over(ours)
        helper.process = process
        return helper

    @staticmethod
    def _spawn(end: socket.socket, arguments: list[str]) -> subprocess.Popen[bytes]:
        folders = os.pathsep.join(folder for folder in sys.path if folder)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _MAIN, *arguments],
            stdin=end.fileno(),
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": folders},
        )
