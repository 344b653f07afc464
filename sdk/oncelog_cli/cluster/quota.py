"""`oncelog quota ...`: how much each principal may do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from oncelog_cli.terminal.argument_types import UsageError, size_bytes
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.client import Client

_KINDS: Final = {
    "produce_bytes_per_s": "bytes of records and their requests, each second",
    "fetch_bytes_per_s": "bytes of answers with records, each second",
    "requests_per_s": "requests of any kind, each second",
    "requests_in_flight": "requests that are being served at once",
    "connections": "links that are open at once",
    "partition_changes_per_min": "partitions created and deleted, each minute",
    "transactional_ids_per_h": "different transactional ids of an hour",
}
_UNLIMITED: Final = "unlimited"
_WORDS: Final = (
    "A subject is User:NAME, or Address:IP for callers without an identity; User:* and Address:* are the default for each of\n"
    "them. Every broker and coordinator holds a quota for itself, as in Kafka. A limit is a number, a number with K, M or G\n"
    "(1024), or `unlimited`, which lifts the default."
)


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("quota", "show, set and remove limits on how much a principal may do")
    noun.verb("list", _list, "every quota that was set", ("oncelog quota list",))
    setting = noun.verb(
        "set",
        _set,
        "set limits; the subject's other limits stay as they are",
        (
            "oncelog quota set User:etl --produce-bytes-per-s 20M --fetch-bytes-per-s 50M",
            "oncelog quota set 'User:*' 'Address:*' --connections 100 --requests-per-s 2000",
            "oncelog quota set User:batch --requests-per-s unlimited",
        ),
        _WORDS,
    )
    setting.add_argument("subject", nargs="+")
    for kind, about in _KINDS.items():
        setting.add_argument(_flag(kind), metavar="LIMIT", help=about)
    remove = noun.verb(
        "remove",
        _remove,
        "take limits away; exit code 1 when there were none",
        ("oncelog quota remove User:etl", "oncelog quota remove User:etl --kind fetch_bytes_per_s"),
    )
    remove.add_argument("subject", nargs="+")
    remove.add_argument(
        "--kind", action="append", default=[], choices=tuple(_KINDS), help="only this one; may be repeated"
    )
    describe = noun.verb(
        "describe",
        _describe,
        "the limits that apply to a subject, and where they come from",
        ("oncelog quota describe", "oncelog quota describe User:etl"),
    )
    describe.add_argument("subject", nargs="?", default="", help="default: your own principal")


def _flag(kind: str) -> str:
    return "--" + kind.replace("_", "-")


def limit_of(word: str) -> int:
    """Raises `UsageError`."""
    if word == _UNLIMITED:
        return -1
    try:
        limit = size_bytes(word)
    except argparse.ArgumentTypeError:
        limit = 0
    if limit < 1:
        raise UsageError(f"a limit is a number from 1 on (20M, 500) or {_UNLIMITED}, not {word!r}")
    return limit


def _limits(args: argparse.Namespace) -> dict[str, int]:
    found = {kind: limit_of(word) for kind in _KINDS if (word := getattr(args, kind)) is not None}
    if not found:
        raise UsageError(f"name a limit: {', '.join(map(_flag, _KINDS))}")
    return found


def _shown(limit: int | None) -> object:
    return _UNLIMITED if limit is None or limit < 0 else limit


# ---------------------------------------------------------------- verbs


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        rows = [
            {"subject": quota.subject, "kind": kind, "limit": _shown(limit)}
            for quota in await client.admin.list_quotas()
            for kind, limit in sorted(quota.limits.items())
        ]
        printer.rows(rows, ("subject", "kind", "limit"))
        return 0

    return with_client(args, run)


def _set(args: argparse.Namespace, printer: Printer) -> int:
    from oncelog.client.admin.quota_admin import Quota

    limits = _limits(args)

    async def run(client: Client) -> int:
        await client.admin.set_quotas([Quota(subject, limits) for subject in args.subject])
        words = ", ".join(f"{kind} {_shown(limit)}" for kind, limit in limits.items())
        printer.value({"subjects": args.subject, "set": limits}, f"{', '.join(args.subject)}: {words}")
        return 0

    return with_client(args, run)


def _remove(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        count = await client.admin.remove_quotas(args.subject, args.kind)
        printer.value({"subjects": args.subject, "removed": count}, f"{count} limits removed")
        return 0 if count else 1

    return with_client(args, run)


def _describe(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        found = await client.admin.describe_quota(args.subject)
        rows = [{"kind": item.kind, "limit": _shown(item.limit), "source": item.source} for item in found.limits]
        if not printer.is_text:
            printer.data({"subject": found.subject, "limits": rows})
            return 0
        printer.text(found.subject or "one of the cluster's services: no quota applies to it")
        printer.rows(rows, ("kind", "limit", "source"))
        return 0

    return with_client(args, run)
