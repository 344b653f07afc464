"""The main module of a helper process: `python -m oncelog_runtime.adapters.helper_main PARENT ROOT MODULE:FUNCTION NAME`.

Rule 1: it ends with its parent, whatever either of them is doing: by the kernel's SIGTERM, and by the end of the socket.
Rule 2: all other processes go first: it has the lowest priority for processor and disk, and is the first one that the kernel
        ends when memory runs out.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn, cast

from oncelog.link.malloc import tune_malloc
from oncelog_runtime.adapters.child import die_with_parent
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.helper_channel import SocketChannel
from oncelog_runtime.ports import HelperGoneError, HelperWork

_NICE: Final = 19
"""Linux derives the priority for the disk from it, the lowest one of those that are served."""
_FIRST_TO_END: Final = "1000"


def main(argv: Sequence[str]) -> int:
    """Runs the work until the parent is gone."""
    parent, root, entry, name = argv
    die_with_parent()
    if os.getppid() != int(parent):
        return 0  # it died before the kernel knew what we want
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    step_back()
    tune_malloc()
    work = _found(entry)
    gc.freeze()
    asyncio.run(_serve(work, root, name))
    return 0


def step_back() -> None:
    """Gives way to every other process of the machine."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError):  # there is none outside of Linux
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END)


def _found(entry: str) -> HelperWork:
    module, _, function = entry.partition(":")
    return cast(HelperWork, getattr(importlib.import_module(module), function))


async def _serve(work: HelperWork, root: str, name: str) -> None:
    channel = await SocketChannel.over(socket.socket(fileno=os.dup(0)))
    disk = OsDisk(root, sync_threads=1, work_threads=1, is_guest=True)
    await work(disk, _Inbox(channel), name)


class _Inbox:
    """The channel of a helper, which is read also while the helper works: so it sees at once that its parent is gone."""

    def __init__(self, channel: SocketChannel) -> None:
        self._channel = channel
        self._messages: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._reading = asyncio.ensure_future(self._read())

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        try:
            await self._channel.send(message)
        except HelperGoneError:
            _end()

    async def receive(self) -> bytes:
        """See `Channel.receive`."""
        return await self._messages.get()

    async def _read(self) -> None:
        try:
            while True:
                await self._messages.put(await self._channel.receive())
        except HelperGoneError:
            _end()
        except Exception:
            traceback.print_exc()
            _end(1)  # no code awaits this task: the parent learns of the bug when it finds the helper gone


def _end(status: int = 0) -> NoReturn:
    os._exit(status)  # at once: a thread may be in the middle of long work


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
