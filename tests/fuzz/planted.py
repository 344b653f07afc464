"""Parsers that are broken on purpose: what the fuzzer must find in a short run. A plugin of `tests.fuzz.run`."""

from __future__ import annotations

import os
from dataclasses import replace
from unittest.mock import patch

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.producers import txn_producer
from tests.fuzz.target import TARGETS, Target, add, all_targets
from tests.fuzz.targets.disk import producer_snapshot as restore


def no_bound(data: bytes) -> object:
    """The real parser of snapshots, without its bound on the numbers that it remembers."""
    with patch.object(txn_producer, "_older_bits", lambda piece, bits: bits << piece * 62):
        return restore(data)


def never_ends(data: bytes) -> object:
    """Pieces behind their lengths: one of length zero is looked at for ever."""
    position = 0
    while position < len(data):
        position += data[position]
    return position


def forgets_the_end(data: bytes) -> object:
    """Another error than the documented one."""
    count = data[0] if data else 0
    return [data[1 + number] for number in range(count)]


def dies(data: bytes) -> object:
    """As a library does that believes its input."""
    if data[:4] == b"ARRO" and data[4:5] != b"W":
        os.abort()
    return None


if "planted_bound" not in TARGETS:
    real = all_targets()["producer_snapshot"]
    add(replace(real, name="planted_bound", run=no_bound, limit_mib=64))
    add(Target("planted_hang", never_ends, (), lambda: [bytes([3, 1, 1, 2, 2, 5, 1, 1, 1, 1])], limit_ms=300))
    add(Target("planted_crash", forgets_the_end, (CorruptMessageError,), lambda: [b"\x03abc"]))
    add(Target("planted_death", dies, (), lambda: [b"ARROW1"]))
