"""Moving the replicas of a partition to other brokers: each step is one new value of the partition's key.

Rule 1: first the new replicas stand beside the old ones (`begin`); when all of them are in the ISR, and enough of the
        target is, the old ones leave (`finish`). So each acknowledged record is in every log of the ISR at each step.
Rule 2: a change of the replicas is an election: it raises the leader epoch, also when the leader stays. A leader builds a
        new view of the followers for each epoch, so no leader, of whatever version of oncelog, replicates to a replica
        of an older set, counts it, or takes it back into the ISR.
Rule 3: a step is taken only under a living leader that is in the ISR; else the election comes first.
Rule 4: the partition's value has no new fields; the target is in a key of its own (`Reassignment`). A
        controller of an older version sees a partition with more replicas than its topic asks for, keeps all of them, and the
        next controller that knows moves continues where the last one stopped.
Rule 5: cancelling is moving back: the same steps with the original replicas as the target.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.election import reshaped
from oncelog_runtime.metadata.cluster_keys import Partition, Reassignment


def is_done(partition: Partition, move: Reassignment) -> bool:
    """Returns True when the partition has the target's replicas, so that the move can be forgotten."""
    return partition.replicas == move.target


def has_begun(partition: Partition, move: Reassignment) -> bool:
    """Returns True when the new replicas stand beside the old ones."""
    return set(move.target) <= set(partition.replicas)


def begin(
    partition: Partition,
    move: Reassignment,
    live: Mapping[int, int],
    min_insync: int,
    dead: Collection[BrokerRef] = (),
) -> Partition | None:
    """Returns the partition with the new replicas beside the old ones; None when the move has begun, or cannot begin now.

    `live`: broker id -> registered incarnation. `min_insync`: the topic's option. `dead`: registered, but proven dead.
    """
    isr = _living(partition, live, dead)
    if has_begun(partition, move) or partition.leader not in isr:
        return None
    if any(broker_id not in live or BrokerRef(broker_id, live[broker_id]) in dead for broker_id in move.target):
        return None
    missing = tuple(broker_id for broker_id in move.target if broker_id not in partition.replicas)
    return reshaped(
        partition,
        isr,
        min_insync,
        replicas=partition.replicas + missing,
        leader_epoch=partition.leader_epoch + 1,
        last_known_leader=partition.leader,
    )


def finish(
    partition: Partition,
    move: Reassignment,
    live: Mapping[int, int],
    min_insync: int,
    dead: Collection[BrokerRef] = (),
    avoid: Collection[BrokerRef] = (),
) -> Partition | None:
    """Returns the partition with the target's replicas only, led by the first that is in sync; None when it is too early.

    `min_insync`: the topic's option. `avoid`: draining brokers.
    """
    isr = _living(partition, live, dead)
    kept = tuple(ref for ref in isr if ref.broker_id in move.target)
    in_sync = {ref.broker_id for ref in kept}
    if is_done(partition, move) or not has_begun(partition, move) or partition.leader not in isr:
        return None
    if not in_sync.issuperset(move.adding) or len(kept) < min(min_insync, len(move.target)):
        return None
    candidates = [ref for ref in kept if ref not in avoid] or list(kept)
    leader = min(candidates, key=lambda ref: move.target.index(ref.broker_id))
    return reshaped(
        partition,
        kept,
        min_insync,
        replicas=move.target,
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        last_known_leader=partition.leader,
    )


def cancelled(move: Reassignment) -> Reassignment:
    """Returns the move back to the original replicas."""
    return replace(move, target=move.original)


def _living(partition: Partition, live: Mapping[int, int], dead: Collection[BrokerRef]) -> tuple[BrokerRef, ...]:
    return tuple(ref for ref in partition.isr if live.get(ref.broker_id) == ref.incarnation and ref not in dead)
