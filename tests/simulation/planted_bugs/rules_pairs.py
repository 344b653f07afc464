"""Guards that stand one behind the other: a test must notice when both are lost. Some of them guard something else alone.

Of two such rules the second guard is no check but a property, so there is no pair to plant: a reader may be served by a
deposed leader, since below a high watermark all logs are equal; and a cut that is too short is asked for again.
"""

from __future__ import annotations

from oncelog_coordinator.core.transactions import transaction_state
from oncelog_partition_leader.cluster.elections import Elections
from oncelog_partition_leader.core.cluster.election import Brokers
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log import partition_log
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.follower import Follower
from oncelog_partition_leader.replication.isr import IsrKeeper
from tests.simulation.planted_bugs import edit, hole_29, unguarded

PLANTS = [
    unguarded(
        "old-session",
        "a follower obeys the newest session only; and what it appends follows its log end",
        edit(LocalPartition, "check_session", ("elif hello or (epoch, session) != self._session:", "elif False:")),
        edit(Follower, "_append", ("if item.base_offset != partition.log.log_end_offset:", "if False:")),
        edit(partition_log, "check_chunk", ("if header.base_offset != offset:", "if False:")),
        scripts=[
            "conformance/replication/test_replica_failures.py::test_a_late_message_of_an_older_session_counts_for_nothing"
        ],
    ),
    unguarded(
        "truncate-after-data",
        "nothing is cut in a session that has brought data; and nothing is cut for an older session",
        edit(
            LocalPartition,
            "truncate",
            (
                "not self.in_session(epoch, session) or self._session_has_data or to >= self.log.log_end_offset",
                "to >= self.log.log_end_offset",
            ),
        ),
        edit(LocalPartition, "check_session", ("elif hello or (epoch, session) != self._session:", "elif False:")),
        scripts=[
            "conformance/replication/test_replica_failures.py::test_a_late_copy_of_a_cut_cuts_nothing_that_came_since"
        ],
    ),
    unguarded(
        "join-without-registration",
        "only who is registered is proposed for the ISR; and etcd compares its registration",
        edit(ReplicaSet, "_may_join", (" or live.get(follower.ref.broker_id) != follower.ref.incarnation", "")),
        edit(
            IsrKeeper,
            "_update",
            ("for r in isr if r not in before.value.isr]", "for r in ()]"),
        ),
        scripts=[
            "conformance/replication/test_elections_below_min_isr.py::test_a_follower_that_is_not_registered_joins_no_isr"
        ],
    ),
    unguarded(
        "elect-without-registration",
        "only who is registered is elected; and etcd compares its registration",
        edit(Brokers, "living", ("self.live.get(ref.broker_id) == ref.incarnation and ", "")),
        edit(
            Elections,
            "_write_chunk",
            ("[Compare(broker_key(ref.broker_id), ref.incarnation) for ref in named]", "[]"),
        ),
        scripts=[
            "conformance/replication/test_elections_below_min_isr.py::test_killed_followers_come_back_to_a_leader_that_lost_power",
        ],
    ),
    unguarded(
        "stale-verified",
        "an enrolment opens a transaction once, when its answer comes; and never after its marker",
        edit(Leadership, "_drain", ("self.queue.enrolments.verified.clear()", "pass")),
        edit(
            ProducerStates,
            "_decide_transactional",
            ("known is not None and name.txn_no <= known.ended_up_to", "False"),
        ),
        scripts=[
            "conformance/transactions/test_coordinator_failures.py::test_a_late_copy_does_not_open_an_ended_transaction_again"
        ],
    ),
    unguarded(
        "number-given-twice",
        "a number that may be open is aborted before the next session; and a session closes the number before its own",
        hole_29.PLANT.planted,
        edit(
            transaction_state,
            "_closed_for_successor",
            (
                "return closed if record.owner.run else close_unknown(closed, closed.last_txn_no + 1, now_ms, limits)",
                "return closed",
            ),
        ),
        scripts=[
            "conformance/transactions/test_enrolled_ahead.py::test_a_later_session_never_gets_a_number_that_may_be_open"
        ],
    ),
]
