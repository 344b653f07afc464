"""Settlements that wait for a broker, in as few items as possible: neighbouring records with one verdict are one item.

Rule 1: everything that waits goes in one call, up to `MOST_RECORDS`; the order in which it was said is kept between calls.
Rule 2: records are joined when partition, epoch, delivery and all that is said about them are the same, and no offset lies
        between them.
Rule 3: each record that was sent has one fate (`judge`), also where the answer is about a part of an item, and where an
        earlier copy of the call may have been executed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum
from typing import Final, NamedTuple

MOST_RECORDS: Final = 10_000
"""The most records of one call."""
REASON_CHARACTERS_MAX: Final = 1_024
NACK_DELAY_MS_MAX: Final = 86_400_000
CHANNEL_PAUSE: Final = -1
"""The delay of a NACK that leaves the pause to the channel."""


class Verdict(IntEnum):
    """A word of a worker about a record; the numbers are those of channel.proto."""

    ACK = 1
    NACK = 2
    TOUCH = 3
    REJECT = 4
    RELEASE = 5


class Said(NamedTuple):
    """A verdict, with its details."""

    verdict: Verdict
    delay_ms: int = CHANNEL_PAUSE
    """The delay of a NACK, in milliseconds."""
    reason: str = ""
    """The reason of a REJECT."""


ACK: Final = Said(Verdict.ACK)
"""The word that is said most: one object for all who say it."""


class Place(NamedTuple):
    """A record in one of its deliveries."""

    partition: int
    offset: int
    delivery: int
    leader_epoch: int = 0
    """In which it was delivered: each leader counts deliveries again, from what is stored."""


class Item(NamedTuple):
    """Neighbouring records about which the same is said. `last` is inclusive."""

    partition: int
    first: int
    last: int
    delivery: int
    said: Said
    leader_epoch: int = 0


def items_of(told: Iterable[tuple[Place, Said]]) -> list[Item]:
    """Returns the fewest items that say all of it. Rule 2."""
    found: list[Item] = []
    in_order = sorted(told, key=lambda one: one[0][:2])
    begin = 0
    while begin < len(in_order):
        (partition, first, delivery, epoch), said = in_order[begin]
        end = begin + 1
        while end < len(in_order) and in_order[end] == ((partition, first + end - begin, delivery, epoch), said):
            end += 1
        found.append(Item(partition, first, first + end - begin - 1, delivery, said, epoch))
        begin = end
    return found


def judge_at_new_leader(said: Said) -> Fate | None:
    """Returns the fate of a word about a record whose partition has another leader by now; None: it goes to that one.

    A new leader counts deliveries again from what was written, so only an acknowledgement, whose work was done, may be
    told to it. What was given back comes again by itself.
    """
    if said.verdict is Verdict.ACK:
        return None
    return Fate.DONE if said.verdict in (Verdict.NACK, Verdict.RELEASE) else Fate.NOT_OURS


class Fate(Enum):
    """The fate of a word about one record."""

    DONE = "done"
    NOT_OURS = "not ours"
    """The worker does not hold it in this delivery, and it was not this word that ended that."""
    FAILED = "failed"
    """The broker did nothing, for another reason."""


class Refusal(NamedTuple):
    """A part of the answer: these records failed. `last` is inclusive."""

    partition: int
    first: int
    last: int
    is_settled: bool
    is_not_owner: bool


def refusals_of(places: Iterable[Place], refusals: Sequence[Refusal]) -> dict[Place, Refusal]:
    """Returns what the answer says about each of these records, the first that it says; what is not there is done.

    There may be thousands of both, so no record is compared with each refusal.
    """
    in_order = sorted({*places})
    offsets = [place[:2] for place in in_order]
    found: dict[Place, Refusal] = {}
    for refusal in reversed(refusals):
        begin = bisect_left(offsets, (refusal.partition, refusal.first))
        end = bisect_right(offsets, (refusal.partition, refusal.last))
        found.update(dict.fromkeys(in_order[begin:end], refusal))
    return found


def judge(said: Said, refusal: Refusal | None, may_be_copy: bool) -> Fate:
    """Returns the fate of a word. `may_be_copy`: an earlier call with it was not answered, and may have been executed.
    Rule 3.
    """
    if refusal is None:
        return Fate.DONE
    if not refusal.is_not_owner and not refusal.is_settled:
        return Fate.FAILED
    if not may_be_copy:
        return Fate.NOT_OURS
    if said.verdict in (Verdict.ACK, Verdict.REJECT):
        return Fate.DONE if refusal.is_settled else Fate.NOT_OURS
    return Fate.NOT_OURS if said.verdict is Verdict.TOUCH else Fate.DONE  # given back, and maybe delivered again
