"""Elects the leader of a partition.

Rule 1: members of the ISR and eligible replicas (`Partition.eligible`) hold every committed record, as long as their logs
        lost nothing since the incarnation that names them. No other replica is ever elected, except by an operator's
        request (`elect_unclean`). Every election raises the leader epoch, above each epoch that a replica reported.
Rule 2: a broker is elected only after it has answered this controller in its present incarnation: a registration may
        outlive its process by the time of a lease, and proves nothing. Nor is a member taken out of the ISR beside a
        leader that has not answered: if that leader has lost power too, all members are still to be asked.
Rule 3: each write of another ISR also writes the eligible replicas (`reshaped`): below `min_insync_replicas` nothing is
        committed, so a member that leaves stays eligible; at the minimum and above no replica is (KIP-966).
Rule 4: the ISR is never emptied. When no member can lead, it stays as it is and the partition waits.
Rule 5: after a restart a replica is asked for its log (`ReplicaState`). One that lost nothing leads at once
        (`elect_restarted`). When none can prove that, the partition waits for *all* members' answers, and the greatest
        (last epoch, log end) wins; a log that is new or was set aside never does.
Rule 6: a value that is older than the last restore of etcd, or that says itself that it is a guess, proves nothing. Every
        replica is asked, once it has noticed the restore, and the greatest log of all wins (`elect_restored`); before, brokers
        that keep a log without being named become replicas (`found_elsewhere`), since replicas may have been moved.
Rule 7: a draining broker is avoided, not excluded: it leads when no other can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_partition_leader.core.replication.replica_state import EMPTY, ReplicaState, Standing
from oncelog_runtime.metadata.cluster_keys import Partition

Refs = tuple[BrokerRef, ...]
EPOCHS_FORGOTTEN_MAX: Final = 1_000
"""Epochs that are skipped after a restore: forgotten leaders may have led in them without writing anything."""
Answers = Mapping[int, tuple[BrokerRef, ReplicaState]]
"""Broker id -> the incarnation that answered, and its answer."""


def everybody(_ref: BrokerRef) -> bool:
    """Counts every broker as heard: for a leader that changes its own partition, which needs no proof of life."""
    return True


@dataclass(frozen=True, slots=True)
class Brokers:
    """The cluster's brokers, as the deciding broker knows them.

    `live`: broker id -> registered incarnation. `dead`: registered, but proven dead. `avoid`: draining brokers.
    `heard`: whether a registered broker has answered in this incarnation. `kept`: what they have told of their logs since a
    restore of etcd.
    """

    live: Mapping[int, int]
    dead: Collection[BrokerRef] = ()
    avoid: Collection[BrokerRef] = ()
    heard: Callable[[BrokerRef], bool] = everybody
    kept: KeptLogs = field(default_factory=KeptLogs)

    def living(self, refs: Sequence[BrokerRef]) -> Refs:
        """Returns those that are registered under exactly this incarnation and not proven dead."""
        return tuple(ref for ref in refs if self.live.get(ref.broker_id) == ref.incarnation and ref not in self.dead)

    def answering(self, refs: Sequence[BrokerRef]) -> Refs:
        """Returns those of the living that have answered."""
        return tuple(ref for ref in self.living(refs) if self.heard(ref))

    def now(self, refs: Sequence[BrokerRef]) -> Refs:
        """Returns the present incarnations of those of these brokers that have answered in it."""
        present = [BrokerRef(ref.broker_id, self.live[ref.broker_id]) for ref in refs if ref.broker_id in self.live]
        return self.answering(present)


def holders(partition: Partition) -> Refs:
    """Returns the replicas that hold every committed record if their logs are intact: the ISR and the eligible ones."""
    return partition.isr + partition.eligible


def reshaped(partition: Partition, isr: Refs, min_insync: int, **changes: Any) -> Partition:
    """Returns the partition with another ISR, and the eligible replicas that follow from it (rule 3).

    `min_insync`: the topic's option. `changes`: other fields of the partition's value.
    """
    changed = replace(partition, isr=isr, **changes)
    if len(isr) >= min(min_insync, len(changed.replicas)):
        return replace(changed, eligible=())
    known = {ref.broker_id for ref in isr}
    eligible: dict[int, BrokerRef] = {}
    for ref in holders(partition):
        if ref.broker_id not in known and ref.broker_id in changed.replicas:
            eligible.setdefault(ref.broker_id, ref)
    return replace(changed, eligible=tuple(eligible.values()))


def _preferred(partition: Partition, among: Sequence[BrokerRef], avoid: Collection[BrokerRef] = ()) -> BrokerRef:
    among = [ref for ref in among if ref not in avoid] or among
    by_id = {ref.broker_id: ref for ref in among}
    for broker_id in partition.replicas:
        if broker_id in by_id:
            return by_id[broker_id]
    return among[0]


def _led(partition: Partition, leader: BrokerRef, isr: Refs, min_insync: int, epoch: int = -1) -> Partition:
    """Returns `partition` in its next epoch; `epoch`: the greatest one that a replica reported."""
    return reshaped(
        partition,
        isr,
        min_insync,
        leader=leader,
        leader_epoch=max(partition.leader_epoch, epoch) + 1,
        last_known_leader=partition.leader,
    )


# ---------------------------------------------------------------- by the registrations alone


def elect(partition: Partition, brokers: Brokers, min_insync: int) -> Partition | None:
    """Returns the partition as it should be; None when it is so, or when no replica can lead without being asked first."""
    isr = brokers.living(partition.isr)
    if partition.leader is not None and partition.leader in isr:
        if isr == partition.isr or not brokers.heard(partition.leader):
            return None
        return reshaped(partition, isr, min_insync)
    candidates = brokers.answering(partition.isr) or brokers.answering(partition.eligible)
    if not candidates:
        return None
    return _led(partition, _preferred(partition, candidates, brokers.avoid), candidates, min_insync)


def needs_answers(partition: Partition, brokers: Brokers) -> bool:
    """Returns True when no replica can lead under the incarnation that the partition names: their logs must be asked for."""
    if partition.leader is not None and partition.leader in brokers.living(partition.isr):
        return False
    return not brokers.answering(holders(partition))


def hand_over(partition: Partition, leaving: BrokerRef, live: Mapping[int, int], min_insync: int) -> Partition | None:
    """Returns the partition after its leader has left by itself; None when no other member of the ISR can lead."""
    brokers = Brokers(live, dead=(leaving,))
    if partition.leader != leaving or not brokers.living(partition.isr):
        return None
    return elect(partition, brokers, min_insync)


def transfer(partition: Partition, to: BrokerRef, brokers: Brokers, min_insync: int) -> Partition | None:
    """Returns the partition under another leader; None when that one leads already or cannot lead.

    The old leader stays in the ISR: a change of leaders alone costs no replica.
    """
    isr = brokers.living(partition.isr)
    if to not in isr or to == partition.leader or partition.leader not in isr or not brokers.heard(to):
        return None
    return _led(partition, to, isr, min_insync)


def give_up(
    partition: Partition,
    leader: BrokerRef,
    live: Mapping[int, int],
    min_insync: int,
    among: Collection[BrokerRef] | None = None,
) -> Partition | None:
    """Returns the partition after its leader has given way to another member of the ISR, and continues as a follower.

    None when it does not lead, or no other member can. `among`: the only members that may lead.
    """
    others = Brokers(live, dead=(leader,)).living(partition.isr)
    others = others if among is None else tuple(ref for ref in others if ref in among)
    if partition.leader != leader or not others:
        return None
    return transfer(partition, _preferred(partition, others), Brokers(live), min_insync)


def leads_as_preferred(partition: Partition) -> bool:
    """Returns True when the preferred replica leads, so that `prefer` would return None; it costs less."""
    return partition.leader is not None and partition.leader.broker_id == partition.replicas[0]


def prefer(partition: Partition, brokers: Brokers, min_insync: int) -> Partition | None:
    """Returns the partition under its preferred replica; None when that one leads already, cannot lead, or drains."""
    preferred = next((ref for ref in partition.isr if ref.broker_id == partition.replicas[0]), None)
    if preferred is None or preferred in brokers.avoid:
        return None
    return transfer(partition, preferred, brokers, min_insync)


# ---------------------------------------------------------------- by what the replicas say of their logs


def elect_restarted(
    partition: Partition, answers: Answers, min_insync: int, avoid: Collection[BrokerRef] = ()
) -> Partition | None:
    """Returns the partition under one of its restarted holders; None until enough of them have answered (rule 5)."""
    intact = _standing(partition, answers, Standing.INTACT)
    if intact:
        return _led_by_greatest(partition, answers, intact, intact, min_insync, avoid)
    unclean = _standing(partition, answers, Standing.UNCLEAN)
    if silent(partition, answers) or not unclean:
        return None
    winner = _greatest(partition, answers, unclean, avoid)
    return _led_by_greatest(partition, answers, (winner,), (winner,), min_insync, avoid)


def is_guess(partition: Partition) -> bool:
    """Returns True for an ISR that its writer could not know: an operator's (incarnation 0), or the controller's (no epoch)."""
    return partition.leader_epoch < 0 or all(ref.incarnation == 0 for ref in partition.isr)


def found_elsewhere(partition: Partition, keepers: Sequence[int]) -> Partition | None:
    """Returns a guess that names these brokers too, which keep a log of the partition; None when it names all of them.

    For a value from before a restore of etcd: the replicas may have been moved since, and only they have the newest records.
    """
    more = tuple(broker_id for broker_id in keepers if broker_id not in partition.replicas)
    return replace(partition, replicas=(*partition.replicas, *more), leader=None, leader_epoch=-1) if more else None


def elect_restored(
    partition: Partition, answers: Answers, since: int, avoid: Collection[BrokerRef] = (), replicas_max: int = 0
) -> Partition | None:
    """Returns the partition under the greatest log of all its replicas (rule 6); None until all of them have answered.

    `since`: mod revision of the restore. An answer from before it may come from a leader that still commits.
    `replicas_max`: of a guess that names more replicas so many stay, those with the greatest logs; 0 = all.
    """
    told = [answers[broker_id] for broker_id in partition.replicas if broker_id in answers]
    if len(told) < len(partition.replicas) or any(now.incarnation <= since for now, _ in told):
        return None
    best = max(state.log for _, state in told)
    if best == EMPTY and not any(_was_never_more(partition, now, state) for now, state in told):
        return None
    equal = tuple(now for now, state in told if state.log == best)
    winner = _preferred(partition, equal, avoid)
    replicas = _kept_replicas(partition, winner, answers, replicas_max)
    return replace(
        partition,
        replicas=replicas,
        leader=winner,
        leader_epoch=max(partition.leader_epoch, *(state.epoch for _, state in told)) + EPOCHS_FORGOTTEN_MAX,
        isr=tuple(ref for ref in equal if ref.broker_id in replicas),
        eligible=(),
        last_known_leader=partition.leader,
    )


def _kept_replicas(partition: Partition, leader: BrokerRef, answers: Answers, replicas_max: int) -> tuple[int, ...]:
    """Returns the replicas of a partition under this leader: of a guess that names too many, those with the greatest logs."""
    replicas = partition.replicas
    if not (is_guess(partition) and 0 < replicas_max < len(replicas)):
        return replicas
    logs = {broker_id: state.log for broker_id, (_, state) in answers.items()}
    far = sorted(replicas, key=lambda broker_id: logs.get(broker_id, EMPTY), reverse=True)
    return (leader.broker_id, *(broker_id for broker_id in far if broker_id != leader.broker_id))[:replicas_max]


def _was_never_more(partition: Partition, now: BrokerRef, state: ReplicaState) -> bool:
    """Returns True when this empty log is the one that the value names, not the successor of a lost one."""
    named = [ref for ref in holders(partition) if ref.broker_id == now.broker_id and ref.incarnation]
    return any(state.standing(ref, now, partition.leader_epoch) is not Standing.LOST for ref in named)


def silent(partition: Partition, answers: Answers) -> Refs:
    """Returns the holders that have not answered yet."""
    return tuple(ref for ref in holders(partition) if ref.broker_id not in answers)


def elect_unclean(partition: Partition, to: BrokerRef, answers: Answers, replicas_max: int = 0) -> Partition:
    """Makes a replica leader on an operator's request (unclean election): records that only the others had are lost.

    `replicas_max`: see `elect_restored`.
    """
    epoch = max((state.epoch for _, state in answers.values()), default=-1)
    return replace(
        partition,
        replicas=_kept_replicas(partition, to, answers, replicas_max),
        leader=to,
        leader_epoch=max(partition.leader_epoch, epoch) + 1,
        isr=(to,),
        eligible=(),
        last_known_leader=partition.leader,
    )


def _standing(partition: Partition, answers: Answers, wanted: Standing) -> Refs:
    """Returns the present incarnations of the holders whose answers prove this standing."""
    found: list[BrokerRef] = []
    for ref in holders(partition):
        if ref.broker_id in answers:
            now, state = answers[ref.broker_id]
            if state.standing(ref, now, partition.leader_epoch) is wanted:
                found.append(now)
    return tuple(found)


def _greatest(
    partition: Partition, answers: Answers, among: Sequence[BrokerRef], avoid: Collection[BrokerRef]
) -> BrokerRef:
    best = max(answers[ref.broker_id][1].log for ref in among)
    return _preferred(partition, [ref for ref in among if answers[ref.broker_id][1].log == best], avoid)


def _led_by_greatest(
    partition: Partition,
    answers: Answers,
    among: Refs,
    isr: Refs,
    min_insync: int,
    avoid: Collection[BrokerRef],
) -> Partition:
    """Elects the greatest log. Among logs that hold all committed records it is not safer, but spares copying the most."""
    epoch = max(state.epoch for _, state in answers.values())
    return _led(partition, _greatest(partition, answers, among, avoid), isr, min_insync, epoch)
