"""How replicas come to agree, and what a follower's word is worth."""

from __future__ import annotations

from oncelog_partition_leader.cluster.balancer import Balancer
from oncelog_partition_leader.cluster.elections import Elections
from oncelog_partition_leader.cluster.topics import topics
from oncelog_partition_leader.cluster.topics.upkeep import TopicUpkeep
from oncelog_partition_leader.core.cluster import election
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_partition_leader.core.replication import replication_session, sessions
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log import batch_stamping
from oncelog_partition_leader.log.data_dir import replica_deletion
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.replication.follower import Follower
from oncelog_partition_leader.replication.log_opening import LogOpener
from oncelog_partition_leader.replication.replicas.log_keeper import LogKeeper
from oncelog_partition_leader.rpc.replica_service import ReplicaService
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.metadata.restore_guard import RestoreGuard
from tests.simulation.planted_bugs import edit, replaced, without

PLANTS = [
    without(
        "old-epochs-by-halves",
        "a new leader commits what older epochs left all at once, and its own records after that",
        edit(ReplicaSet, "_advance", ("or end < self.epoch_start", "")),
        "unit/partition_leader/core/replication/test_replica_set.py::test_a_new_leader_commits_what_older_epochs_left_all_at_once",
    ),
    without(
        "unnoted-epoch",
        "a log says which leader epoch it has reached, also when nobody wrote in it",
        edit(LogOpener, "status", ("LogState(log.reached_epoch,", "LogState(log.last_epoch,")),
        "conformance/cluster/test_restored_etcd_with_faults.py::test_what_was_committed_by_a_leader_that_wrote_nothing_is_kept_after_a_restore",
    ),
    without(
        "no-truncate-known-epoch",
        "a follower is cut to where its last epoch ends in the leader's log",
        [
            edit(
                module,
                "next_step",
                (
                    "if told.log_end_offset <= end else _cut(end, log_start)",
                    "",
                ),
            )
            for module in (sessions, replication_session)
        ],
        "unit/partition_leader/core/replication/test_sessions.py::test_a_tail_of_an_epoch_that_the_leader_cut_short_goes",
    ),
    without(
        "unknown-epoch-streams",
        "an epoch that the leader never saw is cut off whole (KIP-279)",
        [
            edit(
                module,
                "next_step",
                (
                    "return Stream(to) if to == told.log_end_offset else _cut(to, log_start)",
                    "return Stream(told.log_end_offset) if told.log_end_offset <= log_end else _cut(log_end, log_start)",
                ),
            )
            for module in (sessions, replication_session)
        ],
        "unit/partition_leader/core/replication/test_sessions.py::test_epochs_that_the_leader_never_saw_go_whole",
    ),
    without(
        "restored-asks-the-named-alone",
        "after a restore of etcd brokers that keep a log are asked too, though the backup does not name them",
        edit(Elections, "_named_everywhere", ("brokers.kept.elsewhere(partition_id, dead)", "()")),
        "conformance/cluster/test_restored_etcd_moved.py::test_what_was_written_after_a_move_is_there_after_a_restore",
    ),
    without(
        "restored-believes-an-old-guess",
        "a guess is no reason to ask the brokers alone that it names",
        edit(
            Elections, "_named_everywhere", ("if is_open else ()", "if is_open and not is_guess(entry.value) else ()")
        ),
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_a_guess_that_came_back_with_a_second_backup_is_no_reason_to_ask_nobody_else",
    ),
    without(
        "restored-unnoticed-by-topics",
        "a topic that leaves etcd without a tombstone shows that etcd was restored",
        edit(ClusterView, "_contradicts", ("return bool(self.lost_topics(listing))", "return False")),
        "unit/runtime/metadata/test_restore_guard.py"
        "::test_a_topic_that_etcd_lacks_proves_a_restore_though_its_revision_was_raised_and_no_pulse_passed",
        "simulation/test_delays_restored.py::test_a_backup_of_a_moment_ago_is_noticed_by_the_topic_that_it_lacks",
    ),
    without(
        "restored-told-by-an-old-view",
        "a broker that has not noticed the restore does not tell of its logs",
        edit(ReplicaService, "replica_status", ("self._require_same_restore(request)", "pass")),
        "unit/partition_leader/rpc/test_replica_service.py"
        "::test_a_controller_that_knows_of_another_restore_is_told_nothing",
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_a_broker_that_registers_before_it_knows_of_the_restore_has_not_told",
    ),
    without(
        "restored-forgets-the-put-back",
        "a broker that was put back to use while it was down is waited for",
        edit(RestoreGuard, "_saw", ("self.brokers_seen -= gone - named", "self.brokers_seen -= gone")),
        "unit/runtime/metadata/test_restore_guard.py::test_a_decommissioned_broker_that_still_has_replicas_is_known_on",
        "simulation/test_delays_restored.py"
        "::test_a_broker_that_was_decommissioned_by_mistake_and_put_back_is_waited_for",
    ),
    without(
        "restored-plans-by-a-guess",
        "no move is planned for a partition whose replicas are a guess",
        edit(Balancer, "_assignment", ("if not view.is_doubtful(entry) and not is_guess(entry.value)", "")),
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_a_guess_that_had_to_wait_ends_with_as_many_replicas_as_the_topic_has",
    ),
    without(
        "restored-same-id",
        "a copy of the call that made a topic before a restore gives no topic the id of logs that may be away",
        edit(topics, "_id_of_call", ('f"/{restored_at}" if restored_at else ""', '""')),
        "unit/partition_leader/cluster/topics/test_topics.py"
        "::test_a_copy_of_a_call_gives_another_id_after_a_restore_unless_logs_are_kept_under_the_first",
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_a_copy_of_the_call_that_made_a_topic_takes_nothing_from_its_logs",
    ),
    without(
        "restored-removes-too-early",
        "a broker removes no replica before it knows whether etcd was restored while it was down",
        edit(LogKeeper, "_is_moved_away", ("while not self._context.cluster.me().incarnation:", "while False:")),
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_brokers_that_come_late_are_asked_as_long_as_nobody_was_elected",
    ),
    without(
        "restored-trashes-by-a-guess",
        "a guess of the controller is no proof that a replica was moved away",
        edit(replica_deletion, "is_moved_away", ("if is_newer and value.leader_epoch >= 0:", "if is_newer:")),
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_brokers_that_come_late_are_asked_as_long_as_nobody_was_elected",
        "unit/partition_leader/log/data_dir/test_replica_deletion.py"
        "::test_a_guess_of_the_controller_is_no_proof_that_a_replica_was_moved_away",
    ),
    without(
        "restored-asks-too-early",
        "brokers that the backup does not name have some seconds to register after a restore",
        edit(KeptLogs, "elsewhere", ("self.is_early or", "")),
        "conformance/cluster/test_restored_etcd_moved.py"
        "::test_brokers_that_all_were_down_at_the_restore_lose_nothing_either",
    ),
    without(
        "restored-keeps-too-many",
        "a partition that was found at more brokers has as many replicas as its topic again",
        edit(election, "_kept_replicas", ("is_guess(partition) and 0 < replicas_max", "False and 0 < replicas_max")),
        "unit/partition_leader/core/cluster/test_election.py"
        "::test_of_a_guess_with_too_many_replicas_those_with_the_greatest_logs_stay",
        "conformance/cluster/test_restored_etcd_moved.py::test_what_was_written_after_a_move_is_there_after_a_restore",
    ),
    without(
        "internal-not-fsync",
        "the coordinators' logs are on disk before anything is answered from them",
        edit(
            TopicUpkeep,
            "_create_internal",
            ("**_INTERNAL_OPTIONS,", '**_INTERNAL_OPTIONS, "flush_mode": "replicated",'),
        ),
        "conformance/replication/test_replica_failures.py::test_a_follower_whose_sync_failed_is_not_elected",
    ),
    without(
        "follower-ack-unsynced",
        "in fsync mode a follower acknowledges only what is on its disk",
        edit(
            Follower,
            "_append",
            ("wants_sync=_wants_sync(partition, item),", "wants_sync=False,"),
        ),
        "conformance/replication/test_replica_failures.py::test_a_follower_whose_sync_failed_is_not_elected",
    ),
    without(
        "follower-never-checks-crc",
        "a follower checks every checksum before it takes a leader's bytes",
        lambda: replaced(batch_stamping, "check_whole", lambda _: lambda *_: None),
        "unit/partition_leader/log/test_batch_stamping.py::test_a_flipped_bit_anywhere_is_found",
    ),
    without(
        "equal-epoch-leads",
        "nobody leads in an epoch in which its log has batches",
        edit(
            LocalPartition,
            "lead",
            ("state.leader_epoch <= self.log.last_epoch", "state.leader_epoch < self.log.last_epoch"),
        ),
        "conformance/replication/test_leader_epochs.py::test_an_epoch_that_is_given_a_second_time_gives_no_offset_a_second_time",
    ),
]
