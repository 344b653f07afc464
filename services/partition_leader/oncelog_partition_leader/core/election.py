"""Who leads a partition next.

Rule 1: only a member of the ISR whose registered incarnation is the one that the ISR names can be elected; the preferred
        replica first. Every election raises the leader epoch and drops dead members from the ISR.
Rule 2: the ISR is never emptied. When all its members are gone, it stays as it is and the partition waits.
Rule 3: when *every* member of that last ISR is registered again, under whatever incarnation, each is asked how far its
        log goes, and the greatest (last epoch, log end) wins. Each acknowledged record was in the log of every member of
        that ISR; the winner's log extends or equals what each other member still has of the acknowledged log, so nothing
        is lost that is on any of their disks. (KIP-966 trusts one "last known leader"; we ask all.)
Rule 4: unclean election does not exist here.
Rule 5: who drains is avoided, not excluded: it leads when nobody else in the ISR can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from oncelog.types import BrokerRef
from oncelog_runtime.cluster import Partition


class LogState(NamedTuple):
    """How far one replica's log goes. Ordered: greater wins."""

    last_epoch: int
    log_end_offset: int


QUARANTINED: Final = LogState(-2, -1)
"""A replica whose log was set aside as rotten: it has nothing, and is never the greatest of all."""


def _living(isr: Sequence[BrokerRef], live: Mapping[int, int], dead: Collection[BrokerRef]) -> tuple[BrokerRef, ...]:
    return tuple(ref for ref in isr if live.get(ref.broker_id) == ref.incarnation and ref not in dead)


def _preferred(partition: Partition, among: Sequence[BrokerRef], avoid: Collection[BrokerRef] = ()) -> BrokerRef:
    among = [ref for ref in among if ref not in avoid] or among
    by_id = {ref.broker_id: ref for ref in among}
    for broker_id in partition.replicas:
        if broker_id in by_id:
            return by_id[broker_id]
    return among[0]


def elect(
    partition: Partition,
    live: Mapping[int, int],
    dead: Collection[BrokerRef] = (),
    avoid: Collection[BrokerRef] = (),
) -> Partition | None:
    """The partition as it should be, or None when it is so or nobody can lead.

    `live`: broker id -> registered incarnation. `dead`: registered, but proven dead or silent. `avoid`: who drains.
    """
    isr = _living(partition.isr, live, dead)
    if not isr:
        return None
    if partition.leader in isr:
        return None if isr == partition.isr else replace(partition, isr=isr)
    return replace(
        partition,
        leader=_preferred(partition, isr, avoid),
        leader_epoch=partition.leader_epoch + 1,
        isr=isr,
        last_known_leader=partition.leader,
    )


def hand_over(partition: Partition, leaving: BrokerRef, live: Mapping[int, int]) -> Partition | None:
    """The partition after its leader has left in peace; None when nobody else in the ISR can lead."""
    isr = _living(partition.isr, live, (leaving,))
    if partition.leader != leaving or not isr:
        return None
    return elect(partition, live, (leaving,))


def transfer(
    partition: Partition, to: BrokerRef, live: Mapping[int, int], dead: Collection[BrokerRef] = ()
) -> Partition | None:
    """The partition under another leader; None when that leads already or cannot lead.

    The old leader stays in the ISR: a change of leaders alone costs no replica.
    """
    isr = _living(partition.isr, live, dead)
    if to not in isr or to == partition.leader or partition.leader not in isr:
        return None
    return replace(
        partition, leader=to, leader_epoch=partition.leader_epoch + 1, isr=isr, last_known_leader=partition.leader
    )


def give_up(partition: Partition, leader: BrokerRef, live: Mapping[int, int]) -> Partition | None:
    """The partition after its leader has made room for another member of the ISR, and goes on as a follower.

    None when it does not lead, or nobody else can.
    """
    others = _living(partition.isr, live, (leader,))
    if partition.leader != leader or not others:
        return None
    return transfer(partition, _preferred(partition, others), live)


def prefer(
    partition: Partition,
    live: Mapping[int, int],
    dead: Collection[BrokerRef] = (),
    avoid: Collection[BrokerRef] = (),
) -> Partition | None:
    """The partition under its preferred replica; None when that leads already, cannot lead, or drains."""
    preferred = next((ref for ref in partition.isr if ref.broker_id == partition.replicas[0]), None)
    if preferred is None or preferred in avoid:
        return None
    return transfer(partition, preferred, live, dead)


def stopped_whole(partition: Partition, live: Mapping[int, int]) -> bool:
    """No member of the ISR lives under the incarnation that the ISR names."""
    return not _living(partition.isr, live, ())


def returned(partition: Partition, live: Mapping[int, int]) -> tuple[BrokerRef, ...] | None:
    """The last ISR under its new incarnations, when the whole of it was stopped and all are back; else None."""
    if not stopped_whole(partition, live):
        return None
    refs = [BrokerRef(ref.broker_id, live[ref.broker_id]) for ref in partition.isr if ref.broker_id in live]
    return tuple(refs) if len(refs) == len(partition.isr) else None


def recover(partition: Partition, states: Mapping[BrokerRef, LogState]) -> Partition:
    """Elects the longest log of a whole last ISR. `states` holds every member of `returned`."""
    assert {ref.broker_id for ref in states} == {ref.broker_id for ref in partition.isr}, "everybody was asked"
    best = max(states.values())
    winner = _preferred(partition, [ref for ref, state in states.items() if state == best])
    return replace(
        partition,
        leader=winner,
        leader_epoch=partition.leader_epoch + 1,
        isr=(winner,),
        last_known_leader=partition.leader,
    )
