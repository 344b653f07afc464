"""`oncelog profile ...`: which cluster is meant when no flag says so."""

from __future__ import annotations

import argparse
import os
from typing import Final

from oncelog.errors import ConfigError
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands, common_flags
from oncelog_cli.terminal.profiles import Profiles, checked, settings_of

_DETAILS: Final = "A flag wins over the environment, the environment over the profile, the profile over the default."
COLUMNS: Final = ("current", "name", "bootstrap_servers", "security_protocol")
WIDE: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "timeout_ms")


def add_parser(commands: Commands) -> None:
    """The verbs of this noun."""
    noun = commands.noun("profile", "name the clusters that you work with")
    create = noun.verb(
        "create",
        _create,
        "keep the common flags of this command under a name",
        ("oncelog profile create prod --bootstrap-servers kafka-0:9094,kafka-1:9094 --ssl-cafile ca.pem",
         "oncelog profile create local --set bootstrap_servers=127.0.0.1:9092"),
        _DETAILS + " The first profile becomes the current one.",
    )  # fmt: skip
    create.add_argument("name")
    create.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    create.add_argument("--replace", action="store_true", help="an existing profile is replaced")
    create.add_argument("--use", action="store_true", help="make it the current one")
    use = noun.verb("use", _use, "make a profile the current one", ("oncelog profile use prod",), _DETAILS)
    use.add_argument("name")
    noun.verb("list", _list, "all profiles", ("oncelog profile list",), _DETAILS)
    show = noun.verb("show", _show, "one profile", ("oncelog profile show prod",), _DETAILS)
    show.add_argument("name", nargs="?", help="default: the current one")
    delete = noun.verb("delete", _delete, "forget a profile", ("oncelog profile delete prod",))
    delete.add_argument("name")


def _create(args: argparse.Namespace, printer: Printer) -> int:
    profiles = Profiles.read(os.environ)
    if args.name in profiles.profiles and not args.replace:
        raise ConfigError(f"there is a profile {args.name!r} already; --replace replaces it")
    plain = vars(common_flags().parse_args([]))
    settings = settings_of(vars(args), plain) | checked(args.set)
    if not settings:
        raise ConfigError("there is nothing to keep: give --bootstrap-servers, or --set NAME=VALUE")
    profiles.profiles[args.name] = settings
    if args.use or not profiles.current:
        profiles.current = args.name
    profiles.write(os.environ)
    printer.value(_row(profiles, args.name), f"profile {args.name} created" + _current(profiles, args.name))
    return 0


def _use(args: argparse.Namespace, printer: Printer) -> int:
    profiles = Profiles.read(os.environ)
    profiles.get(args.name)
    profiles.current = args.name
    profiles.write(os.environ)
    printer.value(_row(profiles, args.name), f"profile {args.name}" + _current(profiles, args.name))
    return 0


def _list(args: argparse.Namespace, printer: Printer) -> int:
    profiles = Profiles.read(os.environ)
    printer.rows([_row(profiles, name) for name in sorted(profiles.profiles)], COLUMNS, WIDE)
    return 0


def _show(args: argparse.Namespace, printer: Printer) -> int:
    profiles = Profiles.read(os.environ)
    name = args.name or profiles.current
    if not name:
        raise ConfigError("no profile is the current one; see oncelog profile list")
    settings = profiles.get(name)
    lines = [
        f"profile {name}" + _current(profiles, name),
        *(f"  {key:<18} {settings[key]}" for key in sorted(settings)),
    ]
    printer.value(_row(profiles, name), "\n".join(lines))
    return 0


def _delete(args: argparse.Namespace, printer: Printer) -> int:
    profiles = Profiles.read(os.environ)
    profiles.get(args.name)
    del profiles.profiles[args.name]
    profiles.current = "" if profiles.current == args.name else profiles.current
    profiles.write(os.environ)
    printer.value({"name": args.name, "deleted": True}, f"profile {args.name} deleted")
    return 0


def _row(profiles: Profiles, name: str) -> dict[str, object]:
    return {"current": name == profiles.current, "name": name, **profiles.profiles[name]}


def _current(profiles: Profiles, name: str) -> str:
    return " is the current one" if profiles.current == name else ""
