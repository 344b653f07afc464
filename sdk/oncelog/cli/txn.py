"""`oncelog txn ...`"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, Final

from oncelog.cli.output import Printer
from oncelog.cli.parsing import Commands
from oncelog.cli.session import with_client

COLUMNS: Final = (
    "coordinator", "transactional_id", "producer_id", "producer_epoch", "txn_no", "state", "start_timestamp",
    "timeout_ms", "topic_partitions",
)  # fmt: skip


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("txn", "list, describe, abort transactions")
    listing = noun.verb("list", _list, "transactional ids and their states", ("oncelog txn list --state ONGOING",))
    listing.add_argument("--state", action="append", default=[], help="only this state; may be repeated")
    noun.verb("describe", _describe, "one transactional id in full", ("oncelog txn describe my-job",)).add_argument(
        "transactional_id"
    )
    noun.verb("abort", _abort, "abort its open transaction", ("oncelog txn abort my-job",)).add_argument(
        "transactional_id"
    )


def _row(transaction: Any) -> dict[str, Any]:
    row = dataclasses.asdict(transaction)
    row["start_timestamp"] = row["start_timestamp_ms"] or None
    row["topic_partitions"] = [f"{topic}-{partition}" for topic, partition in row["partitions"]]
    row["tokens"] = dict(row["tokens"])
    return row


def _list(args: argparse.Namespace, printer: Printer) -> int:
    found = with_client(args, lambda client: client.admin.list_transactions(args.state))
    printer.rows([_row(t) for t in found], COLUMNS)
    return 0


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    found = with_client(args, lambda client: client.admin.describe_transaction(args.transactional_id))
    printer.rows([_row(found)], (*COLUMNS, "txn_shard", "groups", "owner_run", "tokens"))
    return 0


def _abort(args: argparse.Namespace, printer: Printer) -> int:
    txn_no = with_client(args, lambda client: client.admin.abort_transaction(args.transactional_id))
    name = args.transactional_id
    sentence = f"transaction {txn_no} of {name} is aborted" if txn_no else f"{name} has no open transaction"
    printer.value({"transactional_id": name, "aborted_txn_no": txn_no or None}, sentence)
    return 0
