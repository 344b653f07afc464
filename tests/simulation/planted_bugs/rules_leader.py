"""What a leader answers, counts and takes: acknowledgements, the stable offset, markers, sessions."""

from __future__ import annotations

from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.transactions import Transactions
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.partition.leadership_confirmation import Confirming
from oncelog_partition_leader.replication.follower_link import FollowerLink
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "unconfirmed-end",
        "a leader tells the end of the log only when nobody else can have led since it was asked",
        edit(Confirming, "ask", ("if self._confirmed(all_electable=all_electable) >= number:", "if True:")),
        "conformance/replication/test_ends_of_logs.py::test_a_leader_that_stood_still_tells_no_old_end_when_it_wakes",
        "conformance/replication/test_ends_of_logs.py::test_a_leader_that_is_cut_off_from_everybody_tells_no_end",
        "conformance/replication/test_ends_of_logs.py::test_a_follower_that_is_back_without_the_old_leaders_knowledge_confirms_nothing_for_another",
    ),
    without(
        "marker-epoch",
        "a leader takes no marker of an older coordinator than it has heard of",
        edit(ProducerStates, "decide_marker", ("if marker.coordinator_epoch < newest:", "if False:")),
        "unit/partition_leader/core/producers/test_producer_state.py::test_a_deposed_coordinator_is_fenced_also_for_nothing_and_after_reload",
    ),
    without(
        "ack-below-min-isr",
        "below min_insync_replicas nothing is committed, and acks=all is refused",
        [
            edit(ReplicaSet, "enough_in_sync", ("len(self.committed) >= self._min_insync", "True")),
            edit(
                ReplicaSet,
                "_may_commit",
                ("self.may_unseal and not self.is_sealed and not outstanding", "True"),
            ),
        ],
        "unit/partition_leader/core/replication/test_replica_set.py::test_the_watermark_stands_still_below_min_insync_and_goes_on_after_the_join",
        "unit/partition_leader/partition/test_leadership.py::test_below_min_insync_nothing_is_written",
    ),
    without(
        "lso-without-decided",
        "a decided transaction is unstable until its marker is committed",
        edit(Transactions, "unstable_from", ("in self.decided:\n", "in ():\n")),
        "unit/partition_leader/core/producers/test_transactions.py::test_stability_needs_every_marker_below_the_high_watermark",
        "unit/partition_leader/log/test_log_reads.py::test_the_last_stable_offset_waits_for_the_marker_to_be_committed",
    ),
    without(
        "lso-second-open",
        "the stable offset ends before the oldest of all open transactions",
        edit(Transactions, "first_open_offset", ("in self.open.values():", "in reversed(self.open.values()):")),
        "unit/partition_leader/core/producers/test_producer_state.py::test_the_oldest_open_one_holds_the_rest",
    ),
    without(
        "old-incarnation-ack",
        "only what was acknowledged in the newest session, by the incarnation that it is held with, counts",
        [
            edit(
                ReplicaSet,
                "acknowledge",
                ("follower is None or follower.ref != ref or follower.session != session", "follower is None"),
            ),
            edit(
                FollowerLink,
                "_send",
                (
                    "self._answered(feed, question, answer)\n",
                    """self._answered(feed, question, answer)
        elif not answer.HasField("error"):
            feed.leadership.acknowledge(feed.ref, session, answer.log_end_offset)
""",
                ),
            ),
        ],
        "unit/partition_leader/core/replication/test_replica_set.py::test_acknowledgements_of_an_older_session_or_incarnation_do_not_count",
    ),
    without(
        "join-before-epoch-start",
        "a replica joins the ISR only with everything that was there when the leader's epoch began",
        edit(ReplicaSet, "_may_join", ("self.high_watermark, self.epoch_start", "self.high_watermark")),
        "unit/partition_leader/core/replication/test_replica_set.py::test_a_new_leader_admits_nobody_before_its_epochs_start",
    ),
    without(
        "ended-not-forever",
        "which transactions of an id have ended stays known, whatever session comes next",
        [
            edit(
                Transactions,
                method,
                (
                    "known.session_epoch = max(",
                    f"""if {epoch} > known.session_epoch:
        known.ended_up_to, known.markers = 0, []
    known.session_epoch = max(""",
                ),
            )
            for method, epoch in (("begin", "opened.session_epoch"), ("end", "session_epoch"))
        ],
        "conformance/transactions/test_coordinator_failures.py::test_a_late_copy_of_a_marker_is_known_whatever_session_came_since",
    ),
    without(
        "marker-no-session-fence",
        "a marker of a newer session fences what older sessions still send",
        edit(Transactions, "end", ("known.session_epoch = max(known.session_epoch, session_epoch)", "pass")),
        "unit/partition_leader/core/producers/test_producer_state.py::test_a_marker_raises_the_session",
    ),
]
