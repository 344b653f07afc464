"""ISR and high watermark: holes 2, 10, 17, 24; cases F128-F138; KIP-966."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from oncelog.types import BrokerRef
from oncelog_partition_leader.core.replication.replica_set import (
    GIVE_WAY_AFTER_MS,
    REJOIN_AFTER_MS,
    Ends,
    Registered,
    ReplicaSet,
)

A, B, C = BrokerRef(1, 11), BrokerRef(2, 12), BrokerRef(3, 13)
LIVE = {1: 11, 2: 12, 3: 13}
LAG_MS = 1_000


def leading(*isr: BrokerRef, log_end: int = 0, watermark: int = 0, min_insync: int = 1) -> ReplicaSet:
    return ReplicaSet(
        A,
        Registered((1, 2, 3), isr, mod_revision=5),
        Ends(watermark, log_end, log_end),
        min_insync_replicas=min_insync,
        lag_max_ms=LAG_MS,
        now_ms=0,
    )


@pytest.fixture
def full() -> Iterator[ReplicaSet]:
    """All three in sync, nothing written, sessions open."""
    replicas = leading(A, B, C, min_insync=2)
    for ref in (B, C):
        replicas.start_session(ref, 1, 0)
        replicas.acknowledge(ref, 1, 0, 0)
    yield replicas
    replicas.check()


def test_the_watermark_is_the_smallest_end_of_the_isr(full: ReplicaSet) -> None:
    assert not full.wrote(10, 10, 1)
    assert not full.acknowledge(B, 1, 10, 2)
    assert full.high_watermark == 0
    assert full.acknowledge(C, 1, 7, 3)
    assert full.high_watermark == 7


def test_in_fsync_mode_the_leader_counts_its_synced_end(full: ReplicaSet) -> None:
    full.wrote(10, 0, 1)
    full.acknowledge(B, 1, 10, 2)
    assert not full.acknowledge(C, 1, 10, 2)
    assert full.wrote(10, 10, 3)
    assert full.high_watermark == 10


def test_a_sole_member_commits_alone() -> None:
    replicas = leading(A)
    assert replicas.wrote(5, 5, 1)
    assert replicas.high_watermark == 5


def test_the_watermark_stands_still_below_min_insync_and_goes_on_after_the_join() -> None:
    replicas = leading(A, min_insync=2)
    assert not replicas.wrote(5, 5, 1)
    assert not replicas.enough_in_sync
    replicas.start_session(B, 1, 1)
    assert not replicas.acknowledge(B, 1, 5, 2)
    isr = replicas.proposal(2, LIVE)
    assert isr == (A, B)
    replicas.propose(isr)
    assert not replicas.acknowledge(B, 1, 5, 3), "proposed is not committed"
    replicas.resolve(isr, 6, 3)
    assert replicas.advanced()
    assert replicas.high_watermark == 5


def test_the_watermark_stands_still_until_the_seal_is_gone() -> None:
    replicas = leading(A, min_insync=2)
    replicas.wrote(5, 5, 1)
    assert replicas.may_seal(5)
    replicas.seal()
    replicas.start_session(B, 1, 1)
    replicas.acknowledge(B, 1, 5, 2)
    replicas.resolve((A, B), 6, 3)
    assert replicas.may_unseal
    assert not replicas.advanced(), "the next process would take the seal's word"
    assert replicas.unseal()
    assert replicas.high_watermark == 5


def test_what_is_committed_and_not_synced_is_not_sealed(full: ReplicaSet) -> None:
    full.wrote(5, 5, 1)
    for follower in (B, C):
        full.acknowledge(follower, 1, 5, 1)
    assert not full.may_seal(5), "the ISR is not below its minimum"
    full.resolve((A,), 6, 3, (B, C))
    full.require_in_sync(2)
    assert full.high_watermark == 5
    assert not full.may_seal(4)
    assert full.may_seal(5)


def test_while_a_join_is_in_flight_the_larger_set_counts(full: ReplicaSet) -> None:
    replicas = leading(A, B)
    replicas.start_session(B, 1, 0)
    replicas.start_session(C, 1, 0)
    replicas.acknowledge(C, 1, 0, 0)
    replicas.acknowledge(B, 1, 0, 0)
    assert replicas.proposal(0, LIVE) == (A, B, C)
    replicas.propose((A, B, C))
    replicas.wrote(10, 10, 1)
    assert not replicas.acknowledge(B, 1, 10, 2)
    replicas.settled()
    assert replicas.high_watermark == 10, "the store has shown that C never joined"


def test_a_shrink_counts_only_when_it_is_committed(full: ReplicaSet) -> None:
    full.wrote(10, 10, 0)
    full.acknowledge(B, 1, 10, 1)
    wanted = full.proposal(LAG_MS + 1, LIVE)
    assert wanted == (A, B)
    full.propose(wanted)
    assert full.proposal(LAG_MS + 2, LIVE) is None, "one update in flight"
    assert full.high_watermark == 0
    assert full.resolve(wanted, 6, LAG_MS) == [3]
    assert full.advanced()
    full.settled()
    assert full.high_watermark == 10


def test_a_follower_at_the_log_end_never_leaves(full: ReplicaSet) -> None:
    assert full.proposal(10 * LAG_MS, LIVE) is None
    full.wrote(10, 10, 10 * LAG_MS)
    assert full.proposal(10 * LAG_MS + 1, LIVE) is None, "it was caught up until this write"
    assert full.proposal(11 * LAG_MS + 1, LIVE) == (A,)


def test_a_follower_that_keeps_up_under_load_stays(full: ReplicaSet) -> None:
    end = 0
    for now_ms in range(0, 5 * LAG_MS, 100):
        end += 10
        full.wrote(end, end, now_ms)
        for ref in (B, C):  # always one write behind
            full.acknowledge(ref, 1, end - 10, now_ms)
        assert full.proposal(now_ms, LIVE) is None


def test_a_member_with_another_incarnation_is_out(full: ReplicaSet) -> None:
    assert full.proposal(1, {**LIVE, 3: 99}) == (A, B)


def test_a_new_leader_admits_nobody_before_its_epochs_start() -> None:
    replicas = leading(A, B, log_end=10, watermark=4)
    replicas.start_session(C, 1, 0)
    replicas.acknowledge(C, 1, 6, 1)
    assert replicas.proposal(1, LIVE) is None, "6 is above the watermark, but below the start of the epoch"
    assert not replicas.watermark_is_known
    replicas.acknowledge(C, 1, 10, 2)
    assert replicas.proposal(2, LIVE) == (A, B, C)


def test_acknowledgements_of_an_older_session_or_incarnation_do_not_count(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    full.acknowledge(B, 1, 10, 2)
    full.start_session(C, 2, 3)
    assert not full.acknowledge(C, 1, 10, 4)
    assert not full.acknowledge(BrokerRef(3, 99), 2, 10, 4)
    assert full.high_watermark == 0
    assert full.acknowledge(C, 2, 10, 5)


def test_the_watermark_never_goes_back(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    full.acknowledge(B, 1, 10, 2)
    full.acknowledge(C, 1, 10, 2)
    full.start_session(C, 2, 3)
    full.acknowledge(C, 2, 4, 4)
    assert full.high_watermark == 10


def test_an_older_answer_of_the_store_changes_nothing(full: ReplicaSet) -> None:
    full.resolve((A, B), 8, 0)
    full.resolve((A, B, C), 7, 0)
    assert full.committed == (A, B)


def test_each_write_of_the_key_ends_what_replicas_outside_of_the_isr_have_acknowledged(full: ReplicaSet) -> None:
    full.resolve((A, B), 6, 0)
    full.start_session(C, 2, 200)
    full.acknowledge(C, 2, 0, 5_000)
    assert full.resolve((A, B), 6, 5_000) == [], "this is known"
    assert full.proposal(5_000, LIVE) == (A, B, C)
    assert full.resolve((A, B), 7, 5_000) == [3], "C's log may have been lost: it said so by this write"
    assert full.proposal(9_000, LIVE) is None
    full.start_session(C, 3, 9_000)
    full.acknowledge(C, 3, 0, 9_000)
    assert full.proposal(9_000, LIVE) == (A, B, C)


def test_whom_the_controller_took_out_comes_back_by_a_new_session_and_not_at_once(full: ReplicaSet) -> None:
    assert full.resolve((A, B), 8, 100) == [3]
    assert full.proposal(5_000, LIVE) is None, "what it acknowledged before does not count"
    full.start_session(C, 2, 200)
    full.acknowledge(C, 2, 0, 300)
    assert full.proposal(300, LIVE) is None
    assert full.proposal(100 + REJOIN_AFTER_MS, LIVE) == (A, B, C)


def test_the_watermark_waits_while_etcd_names_eligible_replicas() -> None:
    """The minimum was lowered while B and C were eligible: they hold everything, so nothing may be committed without them."""
    replicas = leading(A, min_insync=2)
    replicas.resolve((A,), 6, 0, eligible=(B, C))
    replicas.wrote(10, 10, 1)
    assert not replicas.require_in_sync(1)
    assert replicas.high_watermark == 0
    assert replicas.proposal(1, LIVE) == (A,), "first etcd must say that they are not eligible any more"
    replicas.propose((A,))
    replicas.resolve((A,), 7, 2)
    assert replicas.settled()
    assert replicas.high_watermark == 10


def test_eligible_replicas_do_not_change_the_isr_below_the_minimum() -> None:
    replicas = leading(A, min_insync=2)
    replicas.resolve((A,), 6, 0, eligible=(B, C))
    assert replicas.proposal(1, LIVE) is None


# ---------------------------------------------------------------- silent, and unable to write


def test_a_silent_follower_leaves_while_enough_others_are_left(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    assert full.proposal(1, LIVE, silent=[C]) == (A, B)
    assert full.proposal(1, LIVE, silent=[]) is None, "one that answers has the whole lag"


def test_silent_followers_stay_when_nothing_could_be_committed_without_them(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    assert full.proposal(2, LIVE, silent=[B, C]) is None
    assert full.proposal(LAG_MS + 2, LIVE, silent=[B, C]) is None, "nor do they leave for being behind"
    assert full.proposal(LAG_MS + 2, {**LIVE, 3: 99}, silent=[B]) == (A, B), "another incarnation leaves in any case"


def test_a_silent_follower_does_not_join_however_far_its_log_went() -> None:
    replicas = leading(A, B, log_end=5)
    replicas.start_session(C, 1, 0)
    replicas.acknowledge(C, 1, 5, 0)
    assert replicas.proposal(1, LIVE, silent=[C]) is None
    assert replicas.proposal(1, LIVE) == (A, B, C)


def test_who_cannot_write_leaves_at_once(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    assert full.cannot_write(C, 1, 2)
    assert full.proposal(2, LIVE) == (A, B)
    assert not full.cannot_write(C, 1, 3), "no news"
    assert not full.cannot_write(B, 7, 3), "of another session"


def test_who_could_not_write_is_back_when_it_took_everything_of_then() -> None:
    replicas = leading(A, B, C)
    replicas.start_session(C, 1, 0)
    replicas.wrote(10, 10, 0)
    replicas.cannot_write(C, 1, 0)
    replicas.propose((A, B))
    replicas.resolve((A, B), 6, 0)
    replicas.settled()
    later = REJOIN_AFTER_MS
    replicas.start_session(C, 2, later)
    replicas.acknowledge(C, 2, 9, later)
    assert replicas.high_watermark == 0, "so that its end alone would do"
    assert replicas.proposal(later, LIVE) is None, "a full disk takes small batches still: it would go in and out"
    replicas.acknowledge(C, 2, 10, later)
    assert replicas.proposal(later, LIVE) == (A, B, C)


def test_a_new_incarnation_owes_nothing(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    full.cannot_write(C, 1, 2)
    full.propose((A, B))
    full.resolve((A, B), 6, 2)
    full.settled()
    full.acknowledge(B, 1, 10, 2)
    born = BrokerRef(3, 99)
    full.start_session(born, 2, 2)
    full.acknowledge(born, 2, 10, REJOIN_AFTER_MS + 2)
    assert full.proposal(REJOIN_AFTER_MS + 2, {**LIVE, 3: 99}) == (A, B, born)


def test_a_leader_cut_off_from_a_sufficient_isr_makes_room_for_it(full: ReplicaSet) -> None:
    now_ms = GIVE_WAY_AFTER_MS
    assert full.must_give_way(now_ms, [B, C])
    assert not full.must_give_way(now_ms, [B]), "with the other one it goes on"
    assert not full.must_give_way(now_ms - 1, [B, C]), "a new leader waits, or nobody would ever lead for long"
    assert not leading(A, B, min_insync=2).must_give_way(now_ms, [B]), "that one alone could commit nothing either"
    assert not leading(A, B, C, min_insync=1).must_give_way(now_ms, [B, C]), "it is enough by itself"


def test_the_watermark_waits_while_a_smaller_isr_than_the_minimum_may_be_in_force() -> None:
    """It was proposed under a lower minimum, so etcd would name nobody eligible beside it."""
    replicas = leading(A, B, min_insync=1)
    replicas.propose((A,))
    replicas.require_in_sync(2)
    replicas.start_session(B, 1, 0)
    replicas.wrote(10, 10, 1)
    assert not replicas.acknowledge(B, 1, 10, 2)
    replicas.resolve((A, B), 6, 3)
    assert replicas.settled()
    assert replicas.high_watermark == 10


def test_a_new_leader_commits_what_older_epochs_left_all_at_once() -> None:
    """A follower has noted the epoch when it goes as far as the leader did at its beginning, and not before (decision 0039)."""
    replicas = leading(A, B, log_end=20, min_insync=2)
    replicas.start_session(B, 1, 0)
    assert not replicas.acknowledge(B, 1, 10, 1)
    assert replicas.high_watermark == 0
    assert replicas.acknowledge(B, 1, 20, 2)
    assert replicas.high_watermark == 20


@pytest.mark.parametrize(
    "unsettles",
    [
        lambda replicas: replicas.wrote(1, 1, 1),
        lambda replicas: replicas.start_session(B, 2, 1),
        lambda replicas: replicas.cannot_write(B, 1, 1),
        lambda replicas: replicas.propose((A, B)),
        lambda replicas: replicas.resolve((A, B, C), 6, 1),
        lambda replicas: replicas.require_in_sync(1),
        lambda replicas: replicas.seal(),
    ],
)
def test_a_set_that_is_whole_and_caught_up_needs_no_look_before_something_happens(
    full: ReplicaSet, unsettles: Callable[[ReplicaSet], object]
) -> None:
    full.settle(LIVE)
    full.acknowledge(B, 1, 0, 5)
    assert full.is_settled
    unsettles(full)
    assert not full.is_settled


def test_a_synced_end_that_moves_unsettles_nothing(full: ReplicaSet) -> None:
    full.wrote(10, 0, 1)
    for ref in (B, C):
        full.acknowledge(ref, 1, 10, 2)
    full.settle(LIVE)
    full.wrote(10, 10, 3)
    assert full.is_settled


HAPPENINGS = ("wrote", "session", "acknowledged", "acknowledged", "acknowledged", "cannot write", "isr", "registered")


def test_a_settled_set_proposes_nothing_at_any_later_time() -> None:
    """Whatever has happened before: the one promise of `settle`, on random histories."""
    settled = 0
    for seed in range(300):
        random = Random(seed)
        replicas = leading(A, B, C, log_end=random.choice((0, 3)), min_insync=random.choice((1, 2, 3)))
        live, end, now_ms = dict(LIVE), replicas.own_end, 0
        sessions = {B: 0, C: 0}
        for _ in range(40):
            now_ms += random.choice((0, 1, LAG_MS))
            follower = random.choice((B, C))
            match random.choice(HAPPENINGS):
                case "wrote":
                    end += random.choice((0, 2))
                    replicas.wrote(end, end, now_ms)
                case "session":
                    sessions[follower] = replicas.next_session()
                    replicas.start_session(follower, sessions[follower], now_ms)
                case "acknowledged":
                    replicas.acknowledge(follower, sessions[follower], end - random.choice((0, 0, 0, 1)), now_ms)
                case "cannot write" if random.random() < 0.3:
                    replicas.cannot_write(follower, sessions[follower], now_ms)
                case "isr" if (wanted := replicas.proposal(now_ms, live)) is not None:
                    replicas.propose(wanted)
                    replicas.resolve(wanted, replicas.mod_revision + 1, now_ms)
                    replicas.settled()
                case "registered" if random.random() < 0.1:
                    live[follower.broker_id] = random.choice((follower.incarnation, 99))
            if random.random() < 0.5:
                replicas.settle(live)
                for later_ms in (0, LAG_MS + 1, 100 * LAG_MS) if replicas.is_settled else ():
                    assert replicas.proposal(now_ms + later_ms, live) is None, seed
                    settled += 1
    assert settled > 500, "the histories reach what is tested"


def test_a_set_with_a_seal_or_with_eligible_replicas_is_not_settled(full: ReplicaSet) -> None:
    """Either has to be cleared before anything is committed, at a time that depends on disks and on etcd."""
    full.resolve((A, B, C), 6, 1, eligible=(B,))
    full.settle(LIVE)
    assert not full.is_settled
    full.resolve((A, B, C), 7, 1)
    full.is_sealed = True
    full.settle(LIVE)
    assert not full.is_settled
    full.unseal()
    full.settle(LIVE)
    assert full.is_settled


def test_everywhere_is_what_every_assigned_replica_has_on_its_disk_in_sync_or_not() -> None:
    replicas = leading(A, B, log_end=10)
    assert replicas.held_everywhere == 0, "nobody was heard in this epoch"
    for ref in (B, C):
        replicas.start_session(ref, 1, 0)
    replicas.acknowledge(B, 1, 10, 1, synced_end=10)
    assert replicas.held_everywhere == 0, "C is no member of the ISR, and counts"
    replicas.acknowledge(C, 1, 9, 1, synced_end=4)
    assert replicas.held_everywhere == 4, "the rest could be lost with C's power"
    replicas.acknowledge(C, 1, 10, 1, synced_end=10)
    assert replicas.held_everywhere == 10
    replicas.wrote(20, 15, 2)
    for ref in (B, C):
        replicas.acknowledge(ref, 1, 20, 3, synced_end=99)
    assert replicas.held_everywhere == 15, "the leader's own end counts, too"


def test_a_follower_that_begins_again_holds_nothing_until_it_says_so(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    for ref in (B, C):
        full.acknowledge(ref, 1, 10, 2, synced_end=10)
    assert full.held_everywhere == 10
    full.start_session(C, 2, 3)
    assert full.held_everywhere == 0, "its log may be another one now, or be cut"
    full.acknowledge(C, 1, 10, 4, synced_end=10)
    assert full.held_everywhere == 0, "a late answer of the session before"
    full.acknowledge(C, 2, 7, 4, synced_end=6)
    assert full.held_everywhere == 6
    full.resolve((A, B), 6, 5)
    assert full.held_everywhere == 0, "etcd may say that its log was lost"


def test_a_leader_without_followers_holds_everything_alone() -> None:
    replicas = ReplicaSet(A, Registered((1,), (A,), 5), Ends(0, 8, 8), min_insync_replicas=1, lag_max_ms=1, now_ms=0)
    assert replicas.held_everywhere == 8
    assert not replicas.awaits_disks(8)


def test_a_disk_is_awaited_while_it_lacks_what_its_follower_has_taken(full: ReplicaSet) -> None:
    full.wrote(10, 10, 1)
    full.acknowledge(B, 1, 10, 2, synced_end=10)
    full.acknowledge(C, 1, 8, 2, synced_end=5)
    assert [full.awaits_disks(offset) for offset in (5, 6, 10)] == [False, True, True]
    full.acknowledge(C, 1, 8, 3, synced_end=8)
    assert not full.awaits_disks(10), "what it was not sent yet is no work of its disk"
