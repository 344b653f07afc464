"""Runs `oncelog verify` of version N over the SDK of whatever version PYTHONPATH names: `verify_with.py N_SDK SETTINGS`.

The command line and the checker are those of N, the client that they use is of that other version.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import oncelog
import oncelog.core


async def main(settings: dict[str, Any]) -> dict[str, Any]:
    from oncelog_cli.load.verify_load import Verification

    args = argparse.Namespace(
        topic=None,
        txn_size=10,
        record_size=100,
        abort_rate=0.2,
        rate=0.0,
        timeout_ms=60_000,
        duration=settings["duration"],
        producers=settings["producers"],
    )
    stop = Path(settings["stop_file"])
    topic = f"compat-{stop.name}"
    client = oncelog.Client(settings["bootstrap_servers"], default_api_timeout_ms=60_000)
    try:
        await client.start()
        await client.admin.create_topic(topic, partitions=4)
        tell_begun(Path(settings["begun_file"]))
        verification = Verification(client, args, topic, topic)
        # A thread that nobody waits for: the file may never come.
        threading.Thread(target=end_when, args=(stop, verification), daemon=True).start()
        return await verification.run()
    finally:
        await client.close()


def with_checker_of(newest: Path) -> None:
    """The whole command line of N, and what its core has that the older one has not."""
    command_line = types.ModuleType("oncelog_cli")
    command_line.__path__ = [str(newest / "oncelog_cli")]
    sys.modules["oncelog_cli"] = command_line
    oncelog.core.__path__.append(str(newest / "oncelog" / "core"))


def tell_begun(begun: Path) -> None:
    begun.touch()


def end_when(stop: Path, verification: Any) -> None:
    while not stop.exists():
        time.sleep(0.1)
    verification.stop()


if __name__ == "__main__":
    with_checker_of(Path(sys.argv[1]))
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[2])))))
