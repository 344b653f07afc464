"""Who may lead when nobody of the ISR is left under the name that it has there."""

from __future__ import annotations

from oncelog_partition_leader.cluster import elections
from oncelog_partition_leader.core.cluster import election
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.core.replication.replica_state import ReplicaState
from oncelog_partition_leader.replication.log_opening import LogOpener
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "elect-longest-lost",
        "among logs that may have lost something the greatest (last epoch, log end) wins",
        edit(election, "_greatest", ("best = max(", "best = min(")),
        "unit/partition_leader/core/cluster/test_election.py"
        "::test_after_a_power_cut_everybody_is_waited_for_and_the_longest_log_wins",
    ),
    without(
        "recover-without-all",
        "when nobody can prove that its log is whole, everybody who may hold committed records is asked first",
        [
            edit(module, "elect_restarted", ("silent(partition, answers) or not unclean", "not unclean"))
            for module in (election, elections)
        ],
        "unit/partition_leader/core/cluster/test_election.py::test_eligible_replicas_are_waited_for_too",
    ),
    without(
        "quarantine-electable",
        "a replica whose log was set aside as rotten is not elected for the empty one in its place",
        edit(LogOpener, "status", ("if partition.id in self._quarantined:", "if False:")),
        "conformance/replication/test_leader_epochs.py::test_a_replica_whose_log_was_set_aside_vouches_for_nothing",
    ),
    without(
        "commit-while-sealed",
        "nothing is committed before the log's seal is gone from the disk",
        edit(ReplicaSet, "_may_commit", (" and not self.is_sealed", "")),
        "conformance/replication/test_sealing.py::test_nothing_is_acknowledged_before_the_seal_is_gone_from_the_disk",
    ),
    without(
        "seal-of-any-epoch",
        "a seal is good only for the leader epoch in which it was written",
        edit(
            ReplicaState, "_is_sealed", ("seal[:2] != (named.incarnation, leader_epoch)", "seal[0] > named.incarnation")
        ),
        "unit/partition_leader/core/replication/test_replica_state.py::test_what_a_seal_proves",
    ),
]
