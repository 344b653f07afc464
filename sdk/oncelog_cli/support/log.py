"""`oncelog log`: forensics of a partition's folder, and a broker's trash. The reading belongs to the servers' code."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from oncelog.errors import ConfigError
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands

BATCH: Final = (
    "position", "base_offset", "last_offset", "records", "bytes", "leader_epoch", "producer_id", "producer_epoch",
    "sequence", "txn_producer_id", "txn_no", "type", "codec", "crc",
)  # fmt: skip
WIDE: Final = ("append_timestamp_ms", "max_timestamp_ms", "txn_shard", "schema_id")
RECORD: Final = ("offset", "timestamp_ms", "key", "value", "headers")
_ROWS_AT_ONCE: Final = 1_000
_DETAILS: Final = """PATH is a partition's folder, a file in it, or a folder of partitions (a broker's `logs`). It only
reads, and may run beside a broker. Each batch says whether its checksums hold; then what is damaged, and what a broker
would do when it opens the folder. Other formats than text give one document per finding, with its `kind`. Exit code 1:
something is damaged."""


TRASH: Final = ("folder", "bytes", "since_ms")
_TRASH_DETAILS: Final = """PATH is a broker's data directory, or its `logs`. Logs of deleted topics and of replicas that
were moved away stay in the trash for the broker's `trash_retention_ms`. A log that was taken back is used when its partition
is in etcd: docs/operations.md, "Backup and restore of etcd". It may run beside a broker."""
Fields = dict[str, Any]
"""The values of a finding, by name; its kind decides which names there are."""


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("log", "look into the files of partitions")
    dump = noun.verb(
        "dump",
        _run,
        "print batches, damage, and what recovery would do",
        ("oncelog log dump oncelog-data/broker-0/logs", "oncelog log dump PARTITION-FOLDER --deep --offsets 100-120"),
        _DETAILS,
    )
    dump.add_argument("path", type=Path)
    dump.add_argument("--deep", action="store_true", help="the records of each batch too")
    dump.add_argument(
        "--offsets", type=_offsets, metavar="A-B", help="only batches with these offsets (both inclusive)"
    )

    trash = noun.verb(
        "trash",
        _trash,
        "list logs that wait for their removal, or take one back",
        ("oncelog log trash oncelog-data/broker-0", "oncelog log trash PATH --take-back FOLDER"),
        _TRASH_DETAILS,
    )
    trash.add_argument("path", type=Path)
    trash.add_argument("--take-back", metavar="FOLDER", default="", help="move this folder back to its place")


def _offsets(text: str) -> range:
    first, separator, last = text.partition("-")
    try:
        found = range(int(first or 0), (int(last) + 1 if last else 1 << 63) if separator else int(first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"offsets are A-B, A-, -B or A, not {text!r}") from None
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} holds no offset")
    return found


def _check_servers() -> None:
    """Raises `ConfigError` where the broker's code is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("oncelog_partition_leader", "oncelog_runtime")):
        raise ConfigError("oncelog log needs the servers' code: pip install 'oncelog[server]'")


def _trash(args: argparse.Namespace, printer: Printer) -> int:
    _check_servers()
    from oncelog_partition_leader.log.data_dir import folder_listing

    logs = folder_listing.logs_in(args.path)
    if args.take_back:
        place = folder_listing.take_back(logs, args.take_back)
        printer.value({"folder": str(place)}, f"{place} is back in its place")
        return 0
    rows = list(folder_listing.trashed_in(logs))
    if rows or not printer.is_text:
        printer.rows(rows, TRASH, ("topic", "topic_id", "partition"))
    else:
        printer.text(f"nothing is in the trash of {logs}")
    return 0


def _run(args: argparse.Namespace, printer: Printer) -> int:
    """Exit code 0: sound."""
    _check_servers()
    from oncelog_partition_leader.log import dump

    is_sound = True
    for folder, segment in dump.partitions_in(args.path):
        findings = dump.dump(folder, segment=segment, deep=args.deep, offsets=args.offsets)
        for kind, group in itertools.groupby(findings, key=lambda finding: finding.kind):
            fields = (finding.fields for finding in group)
            is_sound &= _print(kind, fields, printer)
    return 0 if is_sound else 1


def _print(kind: str, fields: Iterator[Fields], printer: Printer) -> bool:
    """Prints neighbours of a kind. False: they tell of damage."""
    is_sound = True
    while rows := list(itertools.islice(fields, _ROWS_AT_ONCE)):
        is_sound &= kind != "damage" and not any(row.get("outcome") in ("cut", "quarantine", "refuse") for row in rows)
        if not printer.is_text:
            for row in rows:
                printer.data({"kind": kind, **row})
        elif kind in ("batch", "record"):
            printer.rows(rows, *((BATCH, WIDE) if kind == "batch" else (RECORD,)))
        else:
            for row in rows:
                printer.text(_SENTENCES[kind](row))
    return is_sound


def _log(row: Fields) -> str:
    end = "stopped cleanly" if row["clean_shutdown"] else "not stopped cleanly, or still open"
    epochs = row["leader_epochs"]
    shown = (
        ", ".join(f"{epoch} from {start}" for epoch, start in epochs) if isinstance(epochs, list) else epochs or "none"
    )
    snapshots = ", ".join(f"{s['offset']}{'' if s['ok'] else ' (damaged)'}" for s in row["snapshots"]) or "none"
    return (
        f"== {row['folder']}\n{end}; recovery point {row['recovery_point']}, log start {row['log_start_offset']};"
        f" leader epochs: {shown}; snapshots at: {snapshots}"
    )


def _segment(row: Fields) -> str:
    aborted = row["aborted"]
    count = f"{len(aborted)} entries" if isinstance(aborted, list) else aborted or "none"
    return (
        f"segment {row['segment']}: offsets {row['segment']} to {row['next_offset'] - 1}, {row['bytes']} bytes,"
        f" {row['batches']} batches, {row['records']} records, {row['damaged']} damaged; index: {row['index'] or 'none'};"
        f" aborted index: {count}"
    )


def _damage(row: Fields) -> str:
    return f"DAMAGE {row['file']}: first damaged byte at or behind {row['first_damaged_byte']}: {row['why']}"


def _recovery(row: Fields) -> str:
    why = f" ({row['why']})" if row["why"] else ""
    end = f"; offsets {row['log_start_offset']} to {row['log_end_offset'] - 1}" if "log_end_offset" in row else ""
    return f"recovery: {row['does']}{why}{end}"


_SENTENCES: Final = {"log": _log, "segment": _segment, "damage": _damage, "recovery": _recovery}
