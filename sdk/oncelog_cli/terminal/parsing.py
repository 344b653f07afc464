"""The shape of the command line: nouns, verbs, the flags that all of them have, and what a wrong word is answered with.

Rule 1: this file and every noun's file import nothing heavy: grpc, protobuf and pyarrow come in when a verb runs.
Rule 2: flags are never abbreviated, and an unknown one is an error that names the nearest.
Rule 3: every verb has the common flags, an example, and a function that runs it.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from oncelog.errors import ConfigError
from oncelog_cli.terminal.argument_types import milliseconds
from oncelog_cli.terminal.output import FORMATS, Printer
from oncelog_cli.terminal.profiles import Defaults, variable
from oncelog_cli.terminal.progress import seconds

DEFAULT_SERVERS: Final = "127.0.0.1:9092"
Run = Callable[[argparse.Namespace, Printer], int]
"""Runs a verb; returns the exit code."""

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction["Parser"]


class Parser(argparse.ArgumentParser):
    """An argument parser that abbreviates nothing and knows what was meant."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses what it does not know here, where the flags of this very verb are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return found, unknown

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {word!r}; see {self.prog} --help"
        flag = word.partition("=")[0]
        near = difflib.get_close_matches(flag, self._option_string_actions, 1)
        return f"unknown flag {flag}" + (f"; did you mean {near[0]}?" if near else f"; see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        flag = f"--{value}"
        near = [flag] if flag in self._option_string_actions else difflib.get_close_matches(str(value), names, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}"
        raise argparse.ArgumentError(action, f"no such choice: {value!r}; {hint}")

    def error(self, message: str) -> NoReturn:
        """Exit code 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}\n")


def common_flags(defaults: Defaults | None = None) -> Parser:
    """Makes the flags that every verb takes. `defaults`: environment and profile; None = the built-in ones alone."""
    defaults = defaults or Defaults()
    common = Parser(add_help=False)
    flags = common.add_argument_group("common flags")
    flags.add_argument(
        "--bootstrap-servers",
        default=defaults.of("bootstrap_servers", DEFAULT_SERVERS),
        metavar="HOST:PORT,...",
        help=f"brokers to ask first (environment: ONCELOG_BOOTSTRAP_SERVERS; default {DEFAULT_SERVERS})",
    )
    _tls_flags(common.add_argument_group("TLS flags"), defaults)
    _identity_flags(common.add_argument_group("identity flags"), defaults)
    _format_flag(flags, defaults)
    patience = defaults.of("timeout_ms", "30000")
    flags.add_argument(
        "--timeout-ms", type=milliseconds, default=patience, help="give up after this long: 5s, or ms (default 30000)"
    )
    flags.add_argument("--profile", metavar="NAME", help="take the flags that are not given from this profile")
    return common


def _format_flag(flags: argparse._ArgumentGroup, defaults: Defaults) -> None:
    style = defaults.of("format", "text")
    if style not in FORMATS:  # argparse looks at what is typed only
        raise ConfigError(f"ONCELOG_FORMAT, or format of the profile, is one of {', '.join(FORMATS)}", given=style)
    flags.add_argument("--format", choices=FORMATS, default=style, help="how to print (default text)")


def _tls_flags(flags: argparse._ArgumentGroup, defaults: Defaults) -> None:
    flags.add_argument(
        "--security-protocol",
        choices=("PLAINTEXT", "SSL"),
        default=defaults.of("security_protocol") or None,
        help="SSL = TLS (environment: ONCELOG_SECURITY_PROTOCOL; default SSL if one of the files below is given)",
    )
    for name, about in (
        ("ssl-cafile", "CA that signs the brokers; without it, the public ones"),
        ("ssl-certfile", "certificate of this client"),
        ("ssl-keyfile", "key of --ssl-certfile"),
    ):
        setting = name.replace("-", "_")
        default, source = defaults.of(setting), variable(setting)
        flags.add_argument(f"--{name}", default=default, metavar="PEM", help=f"{about} (environment: {source})")


def _identity_flags(flags: argparse._ArgumentGroup, defaults: Defaults) -> None:
    for name, metavar, about in (
        (
            "token-file",
            "FILE",
            "file with a bearer token that says who you are (environment: ONCELOG_TOKEN_FILE, or ONCELOG_TOKEN)",
        ),
        ("username", "NAME", "user with a password (environment: ONCELOG_USERNAME)"),
        (
            "password-file",
            "FILE",
            "file with the password of --username (environment: ONCELOG_PASSWORD_FILE, or ONCELOG_PASSWORD)",
        ),
    ):
        default = defaults.of(name.replace("-", "_"))
        flags.add_argument(f"--{name}", default=default, metavar=metavar, help=about)


class Noun:
    """`oncelog NOUN VERB`: made by `Commands.noun`."""

    def __init__(self, verbs: Verbs, common: Parser) -> None:
        self._verbs = verbs
        self._common = common

    def verb(self, name: str, run: Run, about: str, examples: Sequence[str] = (), details: str = "") -> Parser:
        """Adds a verb, and returns its parser for the flags. `examples`: command lines as people type them."""
        parser = self._verbs.add_parser(
            name,
            parents=[self._common],
            help=about,
            description=_sentence(about) + (f"\n\n{details}" if details else ""),
            epilog="examples:\n" + "\n".join(f"  {line}" for line in examples) if examples else None,
        )
        parser.set_defaults(run=run)
        return parser


class Commands(Noun):
    """`oncelog VERB` and `oncelog NOUN VERB`."""

    def __init__(self, parser: Parser, defaults: Defaults | None = None) -> None:
        self.root = parser
        self.defaults = defaults or Defaults()
        """Environment and profile, for flags that not every verb has."""
        super().__init__(parser.add_subparsers(dest="verb", required=True, metavar="VERB"), common_flags(defaults))
        self._format = Parser(add_help=False)
        _format_flag(self._format.add_argument_group("common flags"), defaults or Defaults())

    def noun(self, name: str, about: str) -> Noun:
        """Adds a noun; its verbs come next."""
        parser = self._verbs.add_parser(name, help=about, description=_sentence(about))
        return Noun(parser.add_subparsers(dest="action", required=True, metavar="ACTION"), self._common)

    def on_this_machine(self) -> Noun:
        """For verbs about the cluster of `oncelog up`: they ask no broker, so `--format` is their one common flag."""
        return Noun(self._verbs, self._format)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def add_watch(parser: argparse.ArgumentParser) -> None:
    """`--watch`, for what changes by itself."""
    parser.add_argument("--watch", action="store_true", help="print again whenever it changes, until Ctrl-C")
    parser.add_argument("--interval-s", type=seconds, default=1.0, help="how often --watch looks (default 1)")
