"""`oncelog user ...`: users who prove a password (SCRAM-SHA-512).

Rule: a password is never a word of the command line, where every user of the machine could read it: it is typed, or read from
a file or from standard input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog_cli.terminal.argument_types import UsageError, add_yes, confirm
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.client import Client


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("user", "list, add and remove users with passwords")
    noun.verb("list", _list, "users with a password", ("oncelog user list",))
    for verb, run, about in (("add", _add, "add a user"), ("passwd", _passwd, "give a user another password")):
        parser = noun.verb(
            verb,
            run,
            about,
            (f"oncelog user {verb} ann", f"oncelog user {verb} ann --new-password-file /run/secrets/ann"),
            "Asks for the password, or reads the first line of --new-password-file (- = standard input).",
        )
        parser.add_argument("user")
        parser.add_argument("--new-password-file", metavar="FILE", help="the user's new password; - = standard input")
    remove = noun.verb("remove", _remove, "remove users; their connections are closed", ("oncelog user remove ann",))
    remove.add_argument("user", nargs="+")
    add_yes(remove)


def _password(args: argparse.Namespace) -> str:
    """Raises `UsageError`."""
    if args.new_password_file is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "there is no terminal to ask for the password at: use --new-password-file FILE, or - for standard input"
            )
        from getpass import getpass

        typed = getpass(f"new password of {args.user}: ")
        if getpass("again: ") != typed:
            raise UsageError("the two passwords differ")
        return typed
    text = sys.stdin.read() if args.new_password_file == "-" else Path(args.new_password_file).read_text("utf-8")
    lines = text.splitlines()
    if not lines or not lines[0]:
        raise UsageError("the password is empty")
    return lines[0]


def _list(args: argparse.Namespace, printer: Printer) -> int:
    async def run(client: Client) -> int:
        rows = [{"user": user.name, "iterations": user.iterations} for user in await client.admin.list_users()]
        printer.rows(rows, ("user", "iterations"))
        return 0

    return with_client(args, run)


def _add(args: argparse.Namespace, printer: Printer) -> int:
    password = _password(args)

    async def run(client: Client) -> int:
        await client.admin.create_user(args.user, password)
        printer.value({"user": args.user, "added": True}, f"{args.user} added")
        return 0

    return with_client(args, run)


def _passwd(args: argparse.Namespace, printer: Printer) -> int:
    password = _password(args)

    async def run(client: Client) -> int:
        await client.admin.set_password(args.user, password)
        printer.value({"user": args.user, "changed": True}, f"the password of {args.user} was changed")
        return 0

    return with_client(args, run)


def _remove(args: argparse.Namespace, printer: Printer) -> int:
    confirm(f"Remove {', '.join(args.user)}?", yes=args.yes)

    async def run(client: Client) -> int:
        rows = [{"user": name, "removed": await client.admin.delete_user(name)} for name in args.user]
        printer.rows(rows, ("user", "removed"))
        return 0 if all(row["removed"] for row in rows) else 1

    return with_client(args, run)
