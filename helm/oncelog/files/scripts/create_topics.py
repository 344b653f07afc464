"""Create the topics of a JSON file where they are missing: `oncelog topic create --if-not-exists` for each.

    python create_topics.py TOPICS.json [--timeout S]

Rule 1: it may run any number of times; a topic that exists is left as it is.
Rule 2: a cluster that is still starting is waited for, `--timeout` seconds in all; then the last error is the exit code.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from oncelog_cli.main import main as oncelog

_PAUSE_S = 2.0


def command(topic: dict[str, Any]) -> list[str]:
    """The words of the command line for one topic."""
    words = ["topic", "create", topic["name"], "--if-not-exists"]
    if "partitions" in topic:
        words += ["--partitions", str(topic["partitions"])]
    if "replicationFactor" in topic:
        words += ["--replication-factor", str(topic["replicationFactor"])]
    for name, value in topic.get("config", {}).items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--config", f"{name}={shown}"]
    return words


def main(arguments: list[str] | None = None) -> int:
    """0 when every topic is there."""
    parser = argparse.ArgumentParser(description="Create topics where they are missing.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S")
    args = parser.parse_args(arguments)
    deadline = time.monotonic() + args.timeout
    for topic in json.loads(args.file.read_text(encoding="utf-8")):
        while (code := oncelog(command(topic))) != 0:
            if time.monotonic() >= deadline:
                return code
            time.sleep(_PAUSE_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
