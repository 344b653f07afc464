"""The coordinator's side: which answer a command gets, and which record must be durable before it is given.

Rules of this file: a pure core, as the real one: `plan` only reads.  A plan with a record is answered when the record is
committed, unless it is a lazy one; one without is answered from memory.  An outcome, once answered, is the outcome for ever.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.rules import Rules
from tests.model.state import Ask, Command, Decided, End, Enrol, Init, Join, Outcome, Record, Reply, Winners

MAX_DECIDED = 5
"""So many transactions may wait for their markers; n+1 may start while n is among them."""

OK = Reply("OK")
ENDED = Reply("ENDED")
FENCED = Reply("FENCED")
WAIT = Reply("WAIT")


class Plan(NamedTuple):
    """The answer to a command, and the record that must be committed first.  A lazy one is remembered, and logged later."""

    reply: Reply
    record: Record | None = None
    lazy: bool = False


def plan(record: Record, command: Command, rules: Rules) -> Plan:
    """What a coordinator with this memory does with a command."""
    match command:
        case Enrol():
            return enrol(record, command, rules)
        case End():
            return end(record, command, rules)
        case Ask():
            return ask(record, command, rules)
        case Join():
            return join(record, command)
        case Init():
            return init(record, command, rules)


def replayed(record: Record, rules: Rules) -> Record:
    """What a new owner makes of the newest record: what its predecessor answered on its own account is not in there."""
    if not rules.expected_may_be_open or not record.expected:
        return record
    if record.ongoing:
        return record._replace(enrolled=record.enrolled | record.expected, may_be_open=True)
    return record._replace(may_be_open=True)


def enrol(record: Record, command: Enrol, rules: Rules) -> Plan:
    """Before a leader opens a transaction on a partition, that partition is in the durable record."""
    batch = command.batch
    if _is_fenced(record, batch.session, rules):
        return Plan(FENCED)
    n = batch.n if rules.name_transactions else record.number + (not record.ongoing)
    if _is_stale(record, n, batch.session, rules):
        return Plan(WAIT)
    here = frozenset({batch.partition})
    if record.ongoing:
        if n != record.number:
            return Plan(ENDED)
        if here <= record.enrolled:
            return Plan(OK)
        return Plan(OK, record._replace(enrolled=record.enrolled | here), here <= record.expected)
    if n != record.number + 1:
        return Plan(ENDED)
    if len(record.decided) >= (MAX_DECIDED if rules.name_transactions else 1):
        return Plan(WAIT)
    opened = _opened(record, n)
    return Plan(OK, opened._replace(enrolled=opened.enrolled | here), here <= record.expected)


def end(record: Record, command: End, rules: Rules) -> Plan:
    """One record decides; n is then closed for ever, also when nothing was enrolled.  Its repeat gets its outcome."""
    if command.attempt and record.token and command.outcome == "COMMITTED":
        return Plan(Reply("COMMITTED", command.n))
    if _is_fenced(record, command.session, rules):
        return Plan(FENCED)
    n = command.n
    if not _names_n(command, rules):
        n = record.number or 1
    elif any(written_in != n for _, written_in in command.winners):
        return Plan(ENDED)
    if _is_stale(record, n, command.session, rules):
        return Plan(WAIT)
    if n == record.number + 1 and not record.ongoing:
        record = _opened(record, n) if rules.end_always_recorded else record
        if not rules.end_always_recorded:
            return Plan(Reply(command.outcome, n))
    if n == record.number and record.ongoing:
        winners = tuple(sorted(writer for writer, _ in command.winners))
        reply = Reply(command.outcome, n) if rules.name_transactions else WAIT
        expected = record.expected | record.enrolled if _expects(command, rules) else frozenset()
        return Plan(reply, decide(record, command.outcome, winners)._replace(expected=expected))
    if not rules.name_transactions and record.decided:
        return Plan(WAIT)
    return Plan(outcome_of(record, n, rules))


def ask(record: Record, command: Ask, rules: Rules) -> Plan:
    """A leader holds n open.  A name that is not known is first recorded as aborted, since its enrolment would be durable."""
    if command.n <= record.number:
        return Plan(outcome_of(record, command.n, rules))
    if command.n == record.number + 1 and record.may_be_open:
        return Plan(Reply("ONGOING", command.n), _opened(record, command.n))
    aborted = Reply("ABORTED", command.n)
    if not rules.unknown_is_recorded_first:
        return Plan(aborted)
    return Plan(aborted, decide(_opened(record, command.n), "ABORTED", ()))


def join(record: Record, command: Join) -> Plan:
    """A participant gets the number of the open transaction, which its attempt's first join has opened."""
    if record.token:
        return Plan(Reply("COMMITTED"))
    if command.attempt <= record.ended_attempt:
        return Plan(ENDED)
    if record.ongoing and record.attempt == command.attempt:
        return Plan(Reply("OK", record.number))
    if record.ongoing and record.attempt > command.attempt:
        return Plan(ENDED)
    if record.ongoing:
        record = decide(record, "ABORTED", ())
    n = record.number + 1
    return Plan(Reply("OK", n), _opened(record, n)._replace(attempt=command.attempt))


def init(record: Record, command: Init, rules: Rules) -> Plan:
    """A new session fences the older ones and ends what they left open or never used; it learns the last number."""
    if command.session < record.session:
        return Plan(FENCED)
    if command.session == record.session:
        return Plan(Reply("OK", record.number))
    if not record.ongoing and (record.may_be_open or rules.given_numbers_are_closed):
        record = _opened(record, record.number + 1)
    if record.ongoing:
        record = decide(record, "ABORTED", ())
    return Plan(Reply("OK", record.number), record._replace(session=command.session, expected=frozenset()))


def decide(record: Record, outcome: Outcome, winners: Winners) -> Record:
    """PREPARE_COMMIT or PREPARE_ABORT of the open transaction: the outcome, for ever."""
    decided = Decided(record.number, outcome, winners, record.enrolled)
    return record._replace(
        expected=frozenset(),
        may_be_open=False,
        ongoing=False,
        attempt=0,
        enrolled=frozenset(),
        decided=(*record.decided, decided),
        ended_attempt=max(record.ended_attempt, record.attempt),
        token=record.token or (record.attempt > 0 and outcome == "COMMITTED"),
    )


def complete(record: Record, decided: Decided, keep: int) -> Record:
    """COMPLETE, once every partition has its marker.  Only now may an outcome leave the bounded list."""
    kept = sorted((*record.kept, decided._replace(partitions=frozenset())))[-keep:]
    return record._replace(decided=tuple(other for other in record.decided if other != decided), kept=tuple(kept))


def outcome_of(record: Record, n: int, rules: Rules) -> Reply:
    """GetOutcome for a number that was given out: the outcome, ONGOING, or FORGOTTEN below the list; never a guess."""
    for known in (*record.decided, *record.kept):
        if known.n == n:
            return Reply(known.outcome, n, known.winners)
    if n == record.number and record.ongoing:
        return Reply("ONGOING", n)
    return Reply("FORGOTTEN" if rules.forgotten_below_list else "ABORTED", n)


def durable(record: Record, rules: Rules) -> Record:
    """What of a coordinator's memory is in the record that it writes: everything, unless the build is careless."""
    if not rules.record_holds_all_decided and record.ongoing:
        record = record._replace(decided=())
    if not rules.commit_names_txn_no:
        record = record._replace(ended_attempt=0)
    if not rules.token_in_every_record and not record.decided:
        record = record._replace(token=False)
    return record._replace(may_be_open=False)


def _opened(record: Record, n: int) -> Record:
    """The next number, with what an earlier life may have answered of it."""
    return record._replace(number=n, ongoing=True, enrolled=record.expected if record.may_be_open else frozenset())


def _is_fenced(record: Record, session: int, rules: Rules) -> bool:
    return rules.session_epoch_checked and session < record.session


def _is_stale(record: Record, n: int, session: int, rules: Rules) -> bool:
    """Whether the command speaks of what this memory cannot know: then another coordinator owns the shard.

    It says nothing then; "ended" or "forgotten" would be false, since the number is yet to come here.
    """
    if not rules.stale_coordinator_is_silent:
        return False
    return n > record.number + (not record.ongoing) or session > record.session


def _expects(command: End, rules: Rules) -> bool:
    """Whether the partitions of this transaction are enrolled in the next one with its decision: not those of a run."""
    return rules.name_transactions and command.attempt == 0


def _names_n(command: End, rules: Rules) -> bool:
    """Whether this END says which transaction it means."""
    return rules.name_transactions and (rules.commit_names_txn_no or command.attempt == 0)
