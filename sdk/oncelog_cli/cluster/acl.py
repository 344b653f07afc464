"""`oncelog acl ...`: who may do what: rules and roles."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog_cli.terminal.argument_types import UsageError
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.admin.security_admin import AccessRule, RoleBinding
    from oncelog.client.client import Client

_RESOURCES: Final = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional-id": "TRANSACTIONAL_ID",
    "app-id": "TOKEN_APP_ID",
}
_CLUSTER: Final = "oncelog-cluster"
_COLUMNS: Final = ("principal", "permission", "operation", "resource_type", "pattern_type", "resource_name", "host")
_BINDINGS: Final = ("principal", "role", "pattern_type", "resource_name")
_WORDS: Final = (
    "Name a resource by --topic, --group, --transactional-id or --app-id NAME (* = all), by the same flag with -prefix for\n"
    "all names that begin alike, or the cluster by --cluster. Instead of --operation give a --role: reader, writer, owner,\n"
    "operator, admin, or one of your own; it holds on the names of --on or --on-prefix (default: on all)."
)


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("acl", "show, add, remove and try out the rules about who may do what")
    listing = noun.verb(
        "list", _list, "rules, and who has which role", ("oncelog acl list", "oncelog acl list --roles")
    )
    listing.add_argument("--principal", help="only what names this principal")
    listing.add_argument("--roles", action="store_true", help="what each role allows, instead")
    for verb, run, about in (("add", _add, "add rules or a role"), ("remove", _remove, "take rules or a role away")):
        parser = noun.verb(
            verb,
            run,
            about,
            (
                f"oncelog acl {verb} --principal User:web --operation READ --topic orders --group billing",
                f"oncelog acl {verb} --principal User:etl --role writer --on-prefix shop.",
                f"oncelog acl {verb} --principal User:eve --operation ALL --topic '*' --deny",
            ),
            _WORDS,
        )
        _rule_flags(parser)
    check = noun.verb(
        "check",
        _check,
        "say whether something is allowed, and why; exit code 1 when it is not",
        ("oncelog acl check READ --topic orders", "oncelog acl check ALTER --cluster --principal User:web"),
    )
    check.add_argument("operation", type=str.upper)
    check.add_argument("--principal", default="", help="the principal to ask about (default: yours)")
    check.add_argument("--host", default="", help="IP address that the principal calls from")
    _resource_flags(check, prefixes=False)


def _rule_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--principal", required=True, action="append", help="User:NAME; User:* = every principal; may be repeated"
    )
    parser.add_argument(
        "--operation", action="append", type=str.upper, default=[], help="READ, WRITE, ...; may be repeated"
    )
    parser.add_argument("--role", help="a bundle of operations")
    parser.add_argument("--on", default="", metavar="NAME", help="resources on which the role holds")
    parser.add_argument("--on-prefix", default="", metavar="PREFIX", help="the same, all that begin alike")
    parser.add_argument("--host", default="*", help="only from this IP address")
    parser.add_argument("--deny", action="store_true", help="forbid it, even where another rule allows it")
    _resource_flags(parser, prefixes=True)


def _resource_flags(parser: argparse.ArgumentParser, *, prefixes: bool) -> None:
    for flag in _RESOURCES:
        parser.add_argument(f"--{flag}", action="append", default=[], metavar="NAME")
        if prefixes:
            parser.add_argument(f"--{flag}-prefix", action="append", default=[], metavar="PREFIX")
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")


def _resources(args: argparse.Namespace) -> list[tuple[str, str, str]]:
    """(type, pattern, name) of each resource that the flags name."""
    found = []
    for flag, kind in _RESOURCES.items():
        name = flag.replace("-", "_")
        found += [(kind, "LITERAL", value) for value in getattr(args, name)]
        found += [(kind, "PREFIXED", value) for value in getattr(args, f"{name}_prefix", [])]
    return found + ([("CLUSTER", "LITERAL", _CLUSTER)] if args.cluster else [])


# ---------------------------------------------------------------- verbs


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        found = await client.admin.list_acls()
        if args.roles:
            rows = [
                {"role": role.name, "built_in": role.built_in, **dataclasses.asdict(rule)}
                for role in found.roles
                for rule in role.rules
            ]
            shown = [{**row, "operations": ", ".join(row["operations"])} for row in rows] if printer.is_text else rows
            printer.rows(shown, ("role", "resource_type", "operations", "resource_name"), ("built_in", "pattern_type"))
            return 0
        acls = [dataclasses.asdict(acl) for acl in found.acls if args.principal in (None, acl.principal)]
        bindings = [dataclasses.asdict(item) for item in found.bindings if args.principal in (None, item.principal)]
        if not printer.is_text:
            printer.data({"acls": acls, "bindings": bindings})
            return 0
        printer.rows(acls, _COLUMNS)
        if bindings:
            printer.text("")
            printer.rows(bindings, _BINDINGS)
        return 0

    return with_client(args, run)


def _items(args: argparse.Namespace) -> tuple[list[AccessRule], list[RoleBinding]]:
    """Rules and bindings that the flags name. Raises `UsageError`."""
    from oncelog.client.admin.security_admin import AccessRule, RoleBinding

    resources = _resources(args)
    if args.role:
        if args.operation or resources or args.deny or args.host != "*" or (args.on and args.on_prefix):
            raise UsageError("a --role goes with --on or --on-prefix alone")
        pattern = "PREFIXED" if args.on_prefix else "LITERAL"
        name = args.on_prefix or args.on or "*"
        return [], [RoleBinding(principal, args.role, name, pattern) for principal in args.principal]
    if not args.operation or not resources:
        raise UsageError("give --operation and a resource (--topic, --group, ..., --cluster), or a --role")
    if args.on or args.on_prefix:
        raise UsageError("--on and --on-prefix go with --role")
    permission = "DENY" if args.deny else "ALLOW"
    rules = [
        AccessRule(principal, operation, kind, name, pattern, permission, args.host)
        for principal in args.principal
        for operation in args.operation
        for kind, pattern, name in resources
    ]
    return rules, []


def _shown(rules: Sequence[AccessRule], bindings: Sequence[RoleBinding]) -> list[dict[str, object]]:
    return [*map(dataclasses.asdict, rules), *map(dataclasses.asdict, bindings)]


def _add(args: argparse.Namespace, printer: Printer) -> int:
    rules, bindings = _items(args)

    async def run(client: Client) -> int:
        await client.admin.create_acls(rules, bindings)
        printer.value({"added": _shown(rules, bindings)}, f"{len(rules) + len(bindings)} added")
        return 0

    return with_client(args, run)


def _remove(args: argparse.Namespace, printer: Printer) -> int:
    rules, bindings = _items(args)

    async def run(client: Client) -> int:
        count = await client.admin.delete_acls(rules, bindings)
        printer.value({"removed": count}, f"{count} of {len(rules) + len(bindings)} were there and are removed")
        return 0 if count else 1

    return with_client(args, run)


def _check(args: argparse.Namespace, printer: Printer) -> int:
    resources = _resources(args)
    if len(resources) != 1:
        raise UsageError("name one resource: --topic, --group, --transactional-id, --app-id or --cluster")
    ((kind, _, name),) = resources

    async def run(client: Client) -> int:
        found = await client.admin.check_acl(args.operation, kind, name, principal=args.principal, host=args.host)
        word = "allowed" if found.allowed else "not allowed"
        sentence = f"{found.principal}: {args.operation} on {kind} {name} is {word}"
        printer.value(dataclasses.asdict(found), sentence + (f" ({found.reason})" if found.reason else ""))
        return 0 if found.allowed else 1

    return with_client(args, run)
