"""The rules that close the holes of the protocol, each of which can be taken out to see what it was good for.

Rules of this file: one boolean per rule, true as the project builds it; a field says what the rule demands and what a
careless build does instead.  The protocol asks these booleans and nothing else about which build it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """How careful the build is.  The number is that of the hole which the rule closes (docs: transactions)."""

    name_transactions: bool = True
    """Every message names its transaction, and every check is equality.  Else a message means "the one that is open", as
    in the protocol of Kafka before KIP-890, and as there the next transaction waits for the markers of the last."""

    epoch_record_before_answer: bool = True
    """(1) A shard begins each life with a committed epoch record, which fences every append of an earlier life.  Else the
    new owner only reads the log to its end, and its epoch is seen with its first own record."""

    heal_answer_carries_winners: bool = True
    """(5) A leader that asks for an outcome hears the winners too.  Else it hears COMMITTED and shows every writer."""

    unknown_is_recorded_first: bool = True
    """(6) A name that the shard does not know is recorded as ABORTED, and then answered.  Else it is said from memory."""

    record_holds_all_decided: bool = True
    """(8) Every record holds each decided transaction whose markers are not all in.  Else the record of n+1 replaces it."""

    commit_names_txn_no: bool = True
    """(11) Join returns n; winners, commit and abort carry it; an ended attempt is in the durable record.  Else a commit
    means the open transaction, and what ended is known to memory only."""

    marker_always_appended: bool = True
    """(12) A marker is always appended, counts when it is committed, and leaves "ended up to n".  Else it is a no-op for a
    leader that has nothing open, even for one that is deposed, and nothing remembers that n ended there."""

    forgotten_below_list: bool = True
    """(15) Below the bounded list of outcomes the answer is OUTCOME_FORGOTTEN.  Else it is ABORTED."""

    session_epoch_checked: bool = True
    """(15) Coordinator and leader refuse the epoch of an earlier session.  Else the equality of n is the only check."""

    token_in_every_record: bool = True
    """(16) The token of the last committed batch is carried in every later record.  Else only in the decision's own."""

    end_always_recorded: bool = True
    """(20) END(n) writes a record also when nothing was enrolled.  Else it is answered and n stays free to be opened."""

    expected_may_be_open: bool = True
    """(Enrolled ahead.)  To a later life of the shard the number that was enrolled ahead may be open, on every partition
    that was expected.  Else it takes it for one that nobody has opened, and a new session may get the same number."""

    given_numbers_are_closed: bool = True
    """A new session first aborts the number that the session before it was given, also when nobody has opened it. Else both
    have the same number, and GetOutcome tells the one of the other's transaction."""

    stale_coordinator_is_silent: bool = True
    """(Found by this model.)  A coordinator that hears of a number or session which its memory cannot know has been
    deposed, and says nothing.  Else it takes the number for one that ended: FORGOTTEN, of a transaction in good health."""

    def without(self, *names: str) -> Rules:
        """These rules with some taken out."""
        return replace(self, **dict.fromkeys(names, False))

    def off(self) -> tuple[str, ...]:
        """The names of the rules that are taken out."""
        return tuple(field.name for field in fields(self) if not getattr(self, field.name))


ALL_RULES = Rules()
