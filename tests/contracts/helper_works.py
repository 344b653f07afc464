"""What helpers run in the tests of helpers."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from oncelog_runtime.ports import Channel, Disk


async def echo(_disk: Disk, channel: Channel, name: str) -> None:
    """Sends back what it gets; its name when that is nothing."""
    while True:
        await channel.send(await channel.receive() or name.encode())


async def copy(disk: Disk, channel: Channel, name: str) -> None:
    """Appends the content of one file to another one, whose name is its own."""
    source = disk.open((await channel.receive()).decode())
    target = disk.open(name, create=True)
    target.append([await disk.run(lambda: source.read(0, source.size))])
    await target.sync()
    await channel.send(name.encode())


async def sleep(_disk: Disk, channel: Channel, _name: str) -> None:
    """Says that it is there, and sleeps."""
    await channel.send(b"here")
    await asyncio.sleep(3600)


async def end(_disk: Disk, channel: Channel, _name: str) -> None:
    """Ends at once, without a word."""
    await channel.receive()
    os._exit(3)


async def leave(_disk: Disk, channel: Channel, _name: str) -> None:
    """Comes to its end after one message."""
    await channel.send(b"done")


async def tell(_disk: Disk, channel: Channel, _name: str) -> None:
    """Tells its id, its priority and what files and sockets it has."""
    await channel.send(" ".join([str(os.getpid()), str(os.getpriority(os.PRIO_PROCESS, 0)), *_open_files()]).encode())
    await channel.receive()


def _open_files() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one of this list
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found
