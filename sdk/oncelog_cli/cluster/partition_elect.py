"""`oncelog partition elect`: says why a partition has no leader, and, as the last resort, elects one uncleanly.

Rule: nothing is lost before the command has named the price and the operator has agreed (`--yes` agrees beforehand).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from oncelog_cli.terminal.argument_types import UsageError, add_yes, confirm, id_of, partition_of
from oncelog_cli.terminal.output import Printer
from oncelog_cli.terminal.parsing import Noun
from oncelog_cli.terminal.session import with_client

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import ReplicaSurvey
    from oncelog.client.client import Client

COLUMNS: Final = ("broker", "answers", "in_last_isr", "log", "last_epoch", "log_end_offset", "lacks", "unsure")


def add_elect(noun: Noun) -> None:
    """The verb."""
    elect = noun.verb(
        "elect",
        _elect,
        "see what a partition without a leader waits for; with --unclean, let a replica lead that may lack records",
        (
            "oncelog partition elect orders/3",
            "oncelog partition elect orders/3 --unclean --to 1",
        ),
        "IN_LAST_ISR: it had every committed record. LOG: intact, unclean (its newest records may be gone), lost (a new disk)."
        " LACKS: committed records that it certainly has not. UNSURE: brokers that may have had more, and cannot say."
        " Start brokers rather than electing: a partition leads again by itself as soon as nothing can be lost.",
    )
    elect.add_argument("partition", metavar="TOPIC/PARTITION")
    elect.add_argument("--unclean", action="store_true", help="elect --to NODE, even if records are lost")
    elect.add_argument("--to", type=id_of, metavar="NODE", help="id of the broker that is to lead")
    add_yes(elect)


def _elect(args: argparse.Namespace, printer: Printer) -> int:
    topic, number = partition_of(args.partition)
    if number is None:
        raise UsageError(f"name one partition, for example {topic}/0")
    if args.unclean != (args.to is not None):
        raise UsageError("--unclean and --to NODE belong together")

    async def run(client: Client) -> int:
        survey = await client.admin.survey_replicas(topic, number)
        if not args.unclean:
            printer.rows(_rows(survey), COLUMNS)
            return 0
        price = price_of(survey, args.to)
        if survey.has_leader:
            raise UsageError(f"{args.partition} has a leader: nothing needs to be lost")
        confirm(f"Let broker {args.to} lead {args.partition}? {price}", yes=args.yes)
        client.give_up_after(args.timeout_ms)  # the time for thinking does not count
        await client.admin.elect_unclean(topic, number, args.to, leader_epoch=survey.leader_epoch)
        if printer.is_text:
            printer.text(f"{args.partition} is led by {args.to}. {price}")
        else:
            printer.data({"partition": args.partition, "leader": args.to, "price": price})
        return 0

    return with_client(args, run)


def _rows(survey: ReplicaSurvey) -> list[dict[str, object]]:
    rows = []
    for replica in survey.replicas:
        lacks, unsure = survey.missing(replica.broker_id)
        rows.append(
            {
                "broker": replica.broker_id,
                "answers": replica.answered,
                "in_last_isr": replica.holder,
                "log": replica.standing if replica.holder else "",
                "last_epoch": replica.last_epoch if replica.answered else None,
                "log_end_offset": replica.log_end_offset if replica.answered else None,
                "lacks": lacks if replica.answered else None,
                "unsure": list(unsure),
            }
        )
    return rows


def price_of(survey: ReplicaSurvey, broker_id: int) -> str:
    """Returns the cost of electing this broker, for a person. Raises `UsageError` when it has no replica, or does not
    answer.
    """
    chosen = next((replica for replica in survey.replicas if replica.broker_id == broker_id), None)
    if chosen is None:
        replicas = ", ".join(str(replica.broker_id) for replica in survey.replicas)
        raise UsageError(f"broker {broker_id} has no replica of this partition; these have: {replicas}")
    if not chosen.answered:
        raise UsageError(f"broker {broker_id} does not answer: start it first")
    lacks, unsure = survey.missing(broker_id)
    sentences = [
        f"Everything from offset {chosen.log_end_offset} on that others had is lost, and cannot be brought back"
    ]
    sentences.append(f": at least {lacks} committed records." if lacks else ".")
    if unsure:
        names = ", ".join(map(str, unsure))
        sentences.append(f" Nobody can say how much broker {names} had beyond that.")
    elif not lacks:
        sentences.append(" No committed record is known to be missing.")
    return "".join(sentences)
