"""The entry point: parses, runs the verb, turns errors into one line and an exit code.

Rule: nothing heavy is imported here; grpc and pyarrow come in when a verb needs them, so `oncelog --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from oncelog import __version__
from oncelog.errors import ConfigError, OncelogError
from oncelog_cli.cluster import acl, channel, cluster, group, node, partition, quota, topic, txn, user
from oncelog_cli.laptop import laptop, up
from oncelog_cli.load import bench, verify
from oncelog_cli.records import consume, produce
from oncelog_cli.support import completion, debug, explain, log, profile
from oncelog_cli.terminal.argument_types import UsageError
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Commands, Parser
from oncelog_cli.terminal.profiles import Defaults, defaults_for

VERBS: Final = (
    up,
    laptop,
    topic,
    partition,
    produce,
    consume,
    group,
    channel,
    txn,
    cluster,
    acl,
    user,
    quota,
    node,
    verify,
    explain,
    completion,
    bench,
    profile,
    debug,
    log,
)
"""In the order of `oncelog --help`; each has `add_parser(commands)`, which adds its verbs."""

_EXAMPLES: Final = """examples:
  oncelog up                                     start a local cluster
  oncelog topic create orders --partitions 6
  echo hello | oncelog produce orders
  oncelog consume orders --from earliest
  oncelog cluster health --watch --exit-when-healthy
"""


def build_parser(defaults: Defaults | None = None) -> Parser:
    """All verbs and their flags; `defaults`: what flags are that are not given (None = what the environment says)."""
    parser = Parser(prog="oncelog", description="A transactional log with exactly-once delivery.", epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"oncelog {__version__}", help="the version, and exit")
    commands = Commands(parser, defaults or Defaults(os.environ))
    for module in VERBS:
        module.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    style = "text"
    if sys.stdin is None:  # it was closed before this program began
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - it lasts as long as the process
    try:
        args = build_parser(defaults_for(words, os.environ)).parse_args(words)
        style = args.format
        code: int = args.run(args, Printer(style))
        return code
    except UsageError as error:
        print(f"oncelog: {error}", file=sys.stderr)
        return 2
    except OncelogError as error:
        _explain(error, style)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a file, a folder or a port that the user named
        named = f"{error.filename}: " if error.filename else ""
        _explain(ConfigError(f"{named}{error.strerror or error}"), style)
        return 1


def _explain(error: OncelogError, style: str) -> None:
    detail = {"error": error.code.name, "message": error.message, "context": error.context}
    Printer(style, sys.stderr).value(detail, f"error {error.code.name}: {error}")
