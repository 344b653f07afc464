"""`python -m tests.fuzz.child NAME`: one campaign, in a process that may be lost. Speaks JSON lines to `tests.fuzz.run`."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import resource
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import Final

from tests.fuzz.engine import Campaign, Failure, Slate, inputs_in
from tests.fuzz.target import TARGETS, all_targets

_SAY_EVERY_S: Final = 2.0
_ROOM_BYTES: Final = 2 << 30


def _say(kind: str, **values: object) -> None:
    sys.stdout.write(json.dumps({"kind": kind, **values}) + "\n")
    sys.stdout.flush()


def _bound_memory() -> None:
    """Beside what is mapped already (Arrow maps much and uses little)."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + _ROOM_BYTES, mapped + _ROOM_BYTES))


def main() -> None:
    """Ends after `--seconds` of the wall's time or `--inputs`, whichever comes first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--inputs", type=int, default=1 << 60)
    parser.add_argument("--slate", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--plugin", default="", help="a module that adds more targets")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.plugin:
        importlib.import_module(given.plugin)
    target = {**all_targets(), **TARGETS}[given.target]
    campaign = Campaign(target, given.seed, inputs_in(given.corpus / target.name))
    _bound_memory()
    ends = time.monotonic() + given.seconds
    said = time.monotonic()
    for failure in campaign.run(Slate(given.slate)):
        if failure is not None:
            _failed(failure)
        now = time.monotonic()
        if now >= said + _SAY_EVERY_S:
            said = now
            _progress("progress", campaign)
        if now >= ends or campaign.inputs >= given.inputs:
            break
    found = {place: b64encode(data).decode() for place, data in campaign.found.items()}
    _progress("done", campaign, found=found)


def _failed(failure: Failure) -> None:
    _say("failure", failure=failure.kind, says=failure.says, data=b64encode(failure.data).decode())


def _progress(kind: str, campaign: Campaign, **more: object) -> None:
    _say(
        kind,
        inputs=campaign.inputs,
        places=len(campaign.found),
        worst_ms=round(campaign.worst_ms, 1),
        worst_mib=round(campaign.worst_mib, 1),
        **more,
    )


if __name__ == "__main__":
    main()
