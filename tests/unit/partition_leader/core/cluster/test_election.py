"""Who leads next: hole 2, KIP-966, KIP-858, cases F142, F143."""

from __future__ import annotations

from dataclasses import replace

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.cluster.election import (
    EPOCHS_FORGOTTEN_MAX,
    Answers,
    Brokers,
    elect,
    elect_restarted,
    elect_restored,
    elect_unclean,
    found_elsewhere,
    give_up,
    hand_over,
    is_guess,
    leads_as_preferred,
    needs_answers,
    prefer,
    reshaped,
    silent,
    transfer,
)
from oncelog_partition_leader.core.replication.replica_state import LogState, ReplicaState
from oncelog_runtime.metadata.cluster_keys import Partition

A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)
ALL = {1: 11, 2: 12, 3: 13}
MIN = 2


def partition(
    leader: BrokerRef | None, *isr: BrokerRef, epoch: int = 4, eligible: tuple[BrokerRef, ...] = ()
) -> Partition:
    return Partition("t", (1, 2, 3), leader, epoch, isr, eligible=eligible)


def only(*heard: BrokerRef) -> Brokers:
    """All three are registered, and these have answered."""
    return Brokers(ALL, heard=lambda ref: ref in heard)


def test_nothing_changes_while_the_whole_isr_lives() -> None:
    assert elect(partition(A, A, B, C), Brokers(ALL), MIN) is None


def test_a_dead_leader_is_replaced_by_the_preferred_living_member_in_a_new_epoch() -> None:
    elected = elect(partition(A, C, B, A), Brokers({2: 12, 3: 13}), MIN)
    assert elected is not None
    assert (elected.leader, elected.leader_epoch, elected.isr) == (B, 5, (C, B))
    assert elected.last_known_leader == A


def test_a_restarted_leader_is_somebody_else() -> None:
    elected = elect(partition(A, A, B), Brokers({1: 99, 2: 12}), MIN)
    assert elected is not None
    assert (elected.leader, elected.isr) == (B, (B,))


def test_a_restarted_follower_leaves_the_isr_without_an_election() -> None:
    changed = elect(partition(A, A, B, C), Brokers({1: 11, 2: 99, 3: 13}), MIN)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.isr) == (A, 4, (A, C))


def test_nobody_is_taken_out_beside_a_leader_that_has_not_answered() -> None:
    """Its registration may outlive it: when all lost power, the restarted follower's log may be the longest."""
    restarted = {**ALL, 2: 99}
    assert elect(partition(A, A, B), Brokers(restarted, heard=lambda ref: ref != A), MIN) is None
    assert elect(partition(A, A, B), Brokers(restarted), MIN) is not None


def test_who_is_proven_dead_is_dropped_though_it_is_registered() -> None:
    elected = elect(partition(A, A, B), Brokers(ALL, [A]), MIN)
    assert elected is not None
    assert (elected.leader, elected.isr) == (B, (B,))


def test_nobody_outside_of_the_isr_is_ever_elected() -> None:
    assert elect(partition(A, A), Brokers({2: 12, 3: 13}), MIN) is None
    assert elect(partition(A, A), Brokers(ALL, [A]), MIN) is None


def test_a_leader_hands_over_only_to_the_isr() -> None:
    handed = hand_over(partition(A, A, B, C), A, ALL, MIN)
    assert handed is not None
    assert (handed.leader, handed.leader_epoch, handed.isr) == (B, 5, (B, C))
    assert hand_over(partition(A, A), A, ALL, MIN) is None
    assert hand_over(partition(B, A, B), A, ALL, MIN) is None, "it leads no more"


def test_who_drains_is_avoided_and_not_excluded() -> None:
    elected = elect(partition(A, A, B, C), Brokers({2: 12, 3: 13}, avoid=[B]), MIN)
    assert elected is not None
    assert elected.leader == C
    last = elect(partition(A, A, B), Brokers({2: 12, 3: 13}, avoid=[B]), MIN)
    assert last is not None
    assert last.leader == B, "better than nobody"
    assert prefer(partition(B, B, A), Brokers(ALL, avoid=[A]), MIN) is None


def test_a_transfer_of_leadership_costs_no_replica() -> None:
    changed = transfer(partition(A, A, B, C), C, Brokers(ALL), MIN)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.isr, changed.last_known_leader) == (C, 5, (A, B, C), A)
    assert transfer(partition(A, A, B), C, Brokers(ALL), MIN) is None, "not in the ISR"
    assert transfer(partition(A, A, B), A, Brokers(ALL), MIN) is None, "it leads already"
    assert transfer(partition(A, A, B), B, Brokers({1: 11, 2: 99}), MIN) is None, "another incarnation"
    assert transfer(partition(A, A, B), B, Brokers({1: 99, 2: 12}), MIN) is None, "a dead leader is the election's"


def test_who_gives_a_leadership_up_stays_in_the_isr() -> None:
    changed = give_up(partition(A, A, C, B), A, ALL, MIN)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.isr) == (B, 5, (A, C, B))
    assert give_up(partition(A, A), A, ALL, MIN) is None
    assert give_up(partition(B, A, B), A, ALL, MIN) is None, "it leads no more"


def test_the_preferred_replica_takes_over_only_from_the_isr() -> None:
    preferred = prefer(partition(B, B, A), Brokers(ALL), MIN)
    assert preferred is not None
    assert (preferred.leader, preferred.leader_epoch) == (A, 5)
    assert prefer(partition(B, B, C), Brokers(ALL), MIN) is None
    assert prefer(partition(A, A, B), Brokers(ALL), MIN) is None


def test_where_the_preferred_replica_leads_nothing_is_to_be_preferred() -> None:
    restarted = BrokerRef(A.broker_id, A.incarnation + 1)
    for led in (partition(A, A, B), partition(A, B, C), partition(A, restarted, B), partition(restarted, A, B)):
        assert leads_as_preferred(led)
        assert all(
            prefer(led, Brokers({**ALL, 1: live}), MIN) is None for live in (A.incarnation, restarted.incarnation)
        )
    assert not leads_as_preferred(partition(B, B, A))
    assert not leads_as_preferred(partition(None, A, B))


# ---------------------------------------------------------------- eligible replicas


def test_whoever_leaves_an_isr_that_falls_below_the_minimum_stays_eligible() -> None:
    at_minimum = reshaped(partition(A, A, B, C), (A, B), MIN)
    assert at_minimum.eligible == (), "two go on committing, without C"
    below = reshaped(at_minimum, (A,), MIN)
    assert below.eligible == (B,), "nothing is committed any more, so B holds everything"
    assert reshaped(partition(A, A, B, C), (A,), MIN).eligible == (B, C)


def test_eligible_replicas_stay_so_until_the_isr_is_at_the_minimum_again() -> None:
    below = partition(A, A, eligible=(B, C))
    anew = BrokerRef(2, 99)
    assert reshaped(below, (A,), MIN).eligible == (B, C)
    assert reshaped(below, (A, anew), MIN).eligible == ()
    assert reshaped(below, (A, anew), 3).eligible == (C,), "who is in the ISR under any incarnation is not named twice"
    assert reshaped(below, (A,), 5).eligible == (B, C), "never more than the replicas are asked for"
    assert reshaped(below, (A, B, C), 5).eligible == ()


def test_a_replica_that_was_moved_away_is_not_eligible() -> None:
    assert reshaped(partition(A, A, B, C), (A,), MIN, replicas=(1, 2)).eligible == (B,)


def test_the_election_of_the_last_member_keeps_the_others_eligible() -> None:
    elected = elect(partition(A, A, B), Brokers({2: 12}), MIN)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible) == (B, (B,), (A,))


def test_an_eligible_replica_leads_when_the_isr_is_gone() -> None:
    elected = elect(partition(A, A, eligible=(B, C)), Brokers({2: 12, 3: 13}), MIN)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible) == (B, (B, C), ())
    assert elect(partition(A, A, eligible=(B, C)), Brokers(ALL), MIN) is None, "the leader lives"


# ---------------------------------------------------------------- registrations of the dead


def test_who_has_not_answered_is_not_elected_though_it_is_registered() -> None:
    assert elect(partition(A, A, B), Brokers({2: 12}, heard=lambda _: False), MIN) is None
    elected = elect(partition(A, A, B, C), Brokers({2: 12, 3: 13}, heard=lambda ref: ref == C), MIN)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible) == (C, (C,), (A, B))
    assert transfer(partition(A, A, B), B, only(A), MIN) is None


def test_a_living_leader_keeps_a_member_that_the_controller_has_not_heard() -> None:
    assert elect(partition(A, A, B, C), only(A), MIN) is None
    assert elect(partition(A, A, B, C), only(), MIN) is None, (
        "the leader itself may be cut off from the controller only"
    )


def test_a_dead_registration_neither_leads_nor_keeps_others_from_being_asked() -> None:
    state = partition(A, A, B, C)
    assert needs_answers(state, Brokers({1: 99, 2: 12}, heard=lambda ref: ref.broker_id == 1))
    assert not needs_answers(state, Brokers(ALL, heard=lambda _: False)), "the leader is registered: a probe decides"
    assert not needs_answers(state, Brokers({1: 99, 2: 12}))


# ---------------------------------------------------------------- restarted replicas

A2, B2, C2 = BrokerRef(1, 91), BrokerRef(2, 92), BrokerRef(3, 93)


def said(ref: BrokerRef, epoch: int, end: int, *, intact_since: int = 0, known_since: int = 1) -> Answers:
    return {ref.broker_id: (ref, ReplicaState(LogState(epoch, end), intact_since, known_since))}


def test_the_first_one_that_lost_nothing_leads_at_once() -> None:
    state = partition(A, A, B, C)
    elected = elect_restarted(state, said(B2, 4, 100, intact_since=5), MIN)
    assert elected is not None
    assert (elected.leader, elected.leader_epoch, elected.isr, elected.eligible) == (B2, 5, (B2,), (A, C))
    eligible = elect_restarted(partition(A, A, eligible=(B, C)), said(C2, 4, 100, intact_since=13), MIN)
    assert eligible is not None
    assert eligible.leader == C2


def test_several_that_lost_nothing_are_all_in_the_isr_under_the_longest_log() -> None:
    answers = {**said(A2, 4, 90, intact_since=5), **said(C2, 4, 95, intact_since=5)}
    elected = elect_restarted(partition(A, A, B, C), answers, MIN)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible) == (C2, (A2, C2), ())


def test_after_a_power_cut_everybody_is_waited_for_and_the_longest_log_wins() -> None:
    state = partition(A, A, B)
    a, b = said(A2, 4, 90, intact_since=91), said(B2, 4, 100, intact_since=92)
    assert elect_restarted(state, a, MIN) is None
    assert silent(state, a) == (B,)
    elected = elect_restarted(state, {**a, **b}, MIN)
    assert elected is not None
    assert (elected.leader, elected.leader_epoch, elected.isr) == (B2, 5, (B2,))
    by_epoch = elect_restarted(state, {**a, **said(B2, 3, 100, intact_since=92)}, MIN)
    assert by_epoch is not None
    assert by_epoch.leader == A2
    tie = elect_restarted(state, {**b, **said(A2, 4, 100, intact_since=91)}, MIN)
    assert tie is not None
    assert tie.leader == A2, "the preferred one among equals"


def test_eligible_replicas_are_waited_for_too() -> None:
    state = partition(A, A, eligible=(B,))
    unclean = said(A2, 4, 90, intact_since=91)
    assert elect_restarted(state, unclean, MIN) is None, "B may hold more"
    elected = elect_restarted(state, {**unclean, **said(B2, 4, 95, intact_since=92)}, MIN)
    assert elected is not None
    assert elected.leader == B2


def test_an_empty_directory_never_beats_a_log_and_never_leads() -> None:
    empty = said(A2, -1, 0, intact_since=91, known_since=91)
    assert elect_restarted(partition(A, A), empty, MIN) is None, "the whole ISR is an empty directory"
    assert elect_restarted(partition(A, A, eligible=(B,)), empty, MIN) is None
    both = {**empty, **said(B2, 4, 7, intact_since=92)}
    elected = elect_restarted(partition(A, A, eligible=(B,)), both, MIN)
    assert elected is not None
    assert elected.leader == B2


def test_an_older_version_that_does_not_say_what_it_lost_is_waited_for() -> None:
    state = partition(A, A, B)
    assert elect_restarted(state, said(A2, 4, 90, known_since=0), MIN) is None
    elected = elect_restarted(state, {**said(A2, 4, 90, known_since=0), **said(B2, 4, 80, known_since=0)}, MIN)
    assert elected is not None
    assert elected.leader == A2


def test_the_new_epoch_is_above_every_epoch_that_a_log_told() -> None:
    elected = elect_restarted(partition(A, A, B), said(B2, 40, 100, intact_since=5), MIN)
    assert elected is not None
    assert elected.leader_epoch == 41, "etcd was restored from a backup that is older than the log"


def test_after_a_restore_of_etcd_every_replica_is_asked_and_the_greatest_log_wins() -> None:
    """The value names A alone, and B and C went on without it."""
    old, now = (
        partition(A, A, epoch=2),
        {ref.broker_id: BrokerRef(ref.broker_id, 100 + ref.broker_id) for ref in (A, B, C)},
    )
    answers = {**said(now[1], 2, 90), **said(now[2], 4, 12), **said(now[3], 4, 12)}
    for missing in (1, 2, 3):
        told = {broker_id: answer for broker_id, answer in answers.items() if broker_id != missing}
        assert elect_restored(old, told, 50) is None, "who does not answer may have more"
    assert elect_restored(old, answers, 102) is None, "one has answered before it knew of the restore"
    found = elect_restored(old, answers, 50)
    assert found is not None
    assert (found.leader, found.isr, found.eligible) == (now[2], (now[2], now[3]), ())
    assert found.leader_epoch == 4 + EPOCHS_FORGOTTEN_MAX, "above every epoch that nobody can tell any more"
    heard = {**answers, 2: (now[2], replace(answers[2][1], known_epoch=7))}
    above = elect_restored(old, heard, 50)
    assert above is not None
    assert above.leader_epoch == 7 + EPOCHS_FORGOTTEN_MAX, "a leader that wrote nothing is a leader too"
    avoided = elect_restored(old, answers, 50, avoid=(now[2],))
    assert avoided is not None
    assert avoided.leader == now[3]


def test_after_a_restore_of_etcd_empty_logs_lead_only_when_none_was_lost() -> None:
    new = partition(A, A, B, C, epoch=0)
    empty = {**said(BrokerRef(1, 101), -1, 0), **said(BrokerRef(2, 102), -1, 0), **said(BrokerRef(3, 103), -1, 0)}
    found = elect_restored(new, empty, 50)
    assert found is not None
    assert len(found.isr) == 3
    lost = {
        ref.broker_id: answer
        for ref in (A, B, C)
        for answer in said(BrokerRef(ref.broker_id, 101), -1, 0, intact_since=101, known_since=101).values()
    }
    assert elect_restored(new, lost, 50) is None, "these directories are new: an operator must say so"


def test_brokers_that_keep_a_log_are_named_before_anybody_is_asked() -> None:
    old = partition(A, A, B, epoch=2, eligible=(C,))
    assert found_elsewhere(old, (2, 1)) is None, "etcd names them all"
    guess = found_elsewhere(old, (1, 5, 6))
    assert guess is not None
    assert is_guess(guess)
    assert guess.replicas == (1, 2, 3, 5, 6)
    assert (guess.leader, guess.isr, guess.eligible) == (None, (A, B), (C,)), "who held everything at the backup"


def test_empty_logs_found_elsewhere_lead_only_when_none_was_lost() -> None:
    guess = found_elsewhere(partition(A, A, B, C, epoch=0), (4,))
    assert guess is not None
    empty = {n: said(BrokerRef(n, 100 + n), -1, 0)[n] for n in (1, 2, 3, 4)}
    assert elect_restored(guess, empty, 50) is not None
    lost = {n: said(BrokerRef(n, 101), -1, 0, intact_since=101, known_since=101)[n] for n in (1, 2, 3)}
    assert elect_restored(guess, {**empty, **lost}, 50) is None, "a moved replica that is empty proves nothing for them"


def test_of_a_guess_with_too_many_replicas_those_with_the_greatest_logs_stay() -> None:
    guess = found_elsewhere(partition(A, A, B, C, epoch=2), (4, 5, 6))
    assert guess is not None
    ends = {1: 90, 2: 90, 3: 10, 4: 95, 5: 20, 6: 95}
    answers = {n: said(BrokerRef(n, 100 + n), 4, end)[n] for n, end in ends.items()}
    found = elect_restored(guess, answers, 50, (), 3)
    assert found is not None
    assert (found.replicas, [ref.broker_id for ref in found.isr]) == ((4, 6, 1), [4, 6])
    everybody = elect_restored(guess, answers, 50)
    assert everybody is not None
    assert everybody.replicas == guess.replicas
    known = replace(guess, leader_epoch=2)
    assert not is_guess(known)
    as_it_is = elect_restored(known, answers, 50, (), 3)
    assert as_it_is is not None
    assert as_it_is.replicas == guess.replicas, "so many were asked for by an operator"


def test_an_unclean_election_of_a_guess_keeps_as_many_replicas_as_the_topic_has() -> None:
    guess = found_elsewhere(partition(A, A, B, C, epoch=2), (4, 5, 6))
    assert guess is not None
    answers = {n: said(BrokerRef(n, 100 + n), 4, end)[n] for n, end in {4: 5, 5: 20, 6: 95}.items()}
    chosen = answers[4][0]
    assert elect_unclean(guess, chosen, answers, 3).replicas == (4, 6, 5), "those that do not answer come last"
    assert elect_unclean(guess, chosen, answers).replicas == guess.replicas
    assert elect_unclean(replace(guess, leader_epoch=2), chosen, answers, 3).replicas == guess.replicas


def test_an_operator_may_choose_whoever_answers() -> None:
    answers = {**said(C2, 3, 50, intact_since=93), **said(B2, 9, 10, intact_since=92)}
    elected = elect_unclean(partition(A, A, eligible=(B,)), C2, answers)
    assert (elected.leader, elected.leader_epoch, elected.isr, elected.eligible) == (C2, 10, (C2,), ())
