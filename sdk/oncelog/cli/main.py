"""The entry point: parses, runs the verb, turns errors into one line and an exit code.

Rule: nothing heavy is imported here; grpc and pyarrow come in when a verb needs them, so `oncelog --help` is quick.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from typing import Final

from oncelog.cli.output import Printer
from oncelog.errors import OncelogError

DEFAULT_SERVERS: Final = "127.0.0.1:9092"
_EXAMPLES: Final = """examples:
  oncelog up                                     start a local cluster
  oncelog topic create orders --partitions 6
  echo hello | oncelog produce orders
  oncelog consume orders --from earliest
  oncelog cluster health --watch --exit-when-healthy
"""


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--bootstrap-servers",
        default=os.environ.get("ONCELOG_BOOTSTRAP_SERVERS", DEFAULT_SERVERS),
        metavar="HOST:PORT,...",
        help=f"brokers to ask first (environment: ONCELOG_BOOTSTRAP_SERVERS; default {DEFAULT_SERVERS})",
    )
    common.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default text)")
    common.add_argument("--timeout-ms", type=int, default=30_000, help="give up after this long (default 30000)")
    return common


def _topic(verbs: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    actions = verbs.add_parser("topic", help="create, list, describe, delete topics").add_subparsers(
        dest="action", required=True
    )
    create = actions.add_parser("create", parents=[common], help="create a topic")
    create.add_argument("topic")
    create.add_argument("--partitions", type=int, default=1)
    create.add_argument("--replication-factor", type=int, default=0, help="0 = the cluster's default")
    create.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is fine")
    listing = actions.add_parser("list", parents=[common], help="list topics")
    listing.add_argument("--internal", action="store_true", help="the cluster's own topics too")
    describe = actions.add_parser("describe", parents=[common], help="partitions, leaders, replicas of a topic")
    describe.add_argument("topic")
    delete = actions.add_parser("delete", parents=[common], help="delete a topic and its records")
    delete.add_argument("topic")


def _records(verbs: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    produce = verbs.add_parser("produce", parents=[common], help="write the lines of standard input")
    produce.add_argument("topic")
    produce.add_argument("--key", help="key of every record")
    produce.add_argument("--key-separator", metavar="TEXT", help="each line is KEY TEXT VALUE")
    produce.add_argument("--partition", type=int, help="default: by key, or any")
    produce.add_argument("--transactional-id", metavar="ID", help="write all lines as one transaction")
    produce.add_argument("--abort", action="store_true", help="abort that transaction at the end")
    produce.add_argument("--compression", choices=("none", "lz4", "zstd"), default="lz4")
    consume = verbs.add_parser("consume", parents=[common], help="print records")
    consume.add_argument("topic")
    consume.add_argument("--partition", type=int, action="append", help="may be repeated; default: all")
    consume.add_argument("--from", dest="start", default="earliest", help="earliest, latest or an offset")
    consume.add_argument("--max-records", "-n", type=int, default=0, help="stop after so many; 0 = never")
    consume.add_argument("--until-end", action="store_true", help="stop at the end as it is now")
    consume.add_argument("--read-uncommitted", action="store_true", help="also records of open transactions")


def _transactions(verbs: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    actions = verbs.add_parser("txn", help="list, describe, abort transactions").add_subparsers(
        dest="action", required=True
    )
    listing = actions.add_parser("list", parents=[common], help="transactional ids and their states")
    listing.add_argument("--state", action="append", default=[], help="only this state; may be repeated")
    for action, words in (("describe", "one transactional id in full"), ("abort", "abort its open transaction")):
        actions.add_parser(action, parents=[common], help=words).add_argument("transactional_id")


def _cluster(verbs: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    actions = verbs.add_parser("cluster", help="the state of the cluster").add_subparsers(dest="action", required=True)
    health = actions.add_parser("health", parents=[common], help="what is not as it should be")
    health.add_argument("--watch", action="store_true", help="print again whenever it changes")
    health.add_argument("--exit-when-healthy", action="store_true", help="wait for health, then exit 0")


def build_parser() -> argparse.ArgumentParser:
    """All verbs and their flags."""
    common = _common()
    parser = argparse.ArgumentParser(
        prog="oncelog",
        description="A transactional log with exactly-once delivery.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("up", add_help=False, help="start a local cluster of real processes")
    _topic(verbs, common)
    _records(verbs, common)
    _transactions(verbs, common)
    _cluster(verbs, common)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["up"]:
        return _up(words[1:])
    args = build_parser().parse_args(words)
    verb = importlib.import_module(f"oncelog.cli.{args.verb}")
    try:
        code: int = verb.run(args, Printer(args.format))
        return code
    except OncelogError as error:
        _explain(error, args.format)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _up(words: list[str]) -> int:
    """Becomes the local cluster's supervisor, which belongs to the servers and is not imported here."""
    supervisor = [sys.executable, "-m", "oncelog_runtime.local", *words]
    if importlib.util.find_spec("oncelog_runtime") is None or importlib.util.find_spec("etcd3") is None:
        print("oncelog up needs the servers: pip install 'oncelog[server,local]'", file=sys.stderr)
        return 1
    sys.stdout.flush()
    return os.execv(supervisor[0], supervisor)


def _explain(error: OncelogError, style: str) -> None:
    if style == "json":
        detail = {"error": error.code.name, "message": error.message, "context": error.context}
        print(json.dumps(detail), file=sys.stderr)
    else:
        print(f"error {error.code.name}: {error}", file=sys.stderr)
