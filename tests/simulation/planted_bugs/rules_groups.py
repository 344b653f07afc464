"""The rules of groups with members: who owns a partition, which epoch commits, and what a late copy may not do."""

from __future__ import annotations

from oncelog_coordinator.core.group_shard.member_fences import MemberFences
from oncelog_coordinator.core.groups import assignment, group_table, membership, reconcile
from oncelog_coordinator.core.groups.group import Draft, Group
from oncelog_coordinator.core.groups.group_table import GroupTable
from oncelog_coordinator.core.offsets import offset_table
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.effects.topic_watch import TopicWatch
from tests.simulation.planted_bugs import edit, without

_TABLE = "unit/coordinator/core/groups/test_group_table.py::"
_FENCES = "unit/coordinator/core/group_shard/test_member_fences.py::"
_MEMBERS = "unit/coordinator/core/groups/test_membership.py::"
_TIMES = "unit/coordinator/core/groups/test_timeouts.py::"
_UNCHECKED = edit(
    Group,
    "check",
    ("assert owners == self.owners", "assert True or self.owners"),
    ('assert partition not in owners, f"{partition} has two owners"', "pass"),
)
"""The core's own assertions about owners, which would meet the bug first."""

PLANTS = [
    without(
        "group-hands-over-early",
        "a partition is handed over when its owner has said that it let go",
        [edit(reconcile, "_completed", ("if is_free(partition)", "")), _UNCHECKED],
        f"{_MEMBERS}test_a_partition_moves_when_its_owner_has_let_go_and_not_before",
        f"{_TABLE}test_whatever_happens_nothing_is_owned_twice_and_nobody_starves",
    ),
    without(
        "group-believes-silence",
        "what a member has to let go is its own until it has said that it carried the assignment out",
        edit(group_table, "reconciled", ("if shown.applied < member.number:", "if shown.applied < 0:")),
        f"{_MEMBERS}test_a_partition_moves_when_its_owner_has_let_go_and_not_before",
    ),
    without(
        "group-drops-what-stays",
        "a partition that stays in the target stays assigned",
        edit(
            group_table,
            "reconciled",
            ("assigned=kept, revoking=revoking", "assigned={}, revoking=dict(member.assigned)"),
        ),
        f"{_MEMBERS}test_a_member_that_keeps_a_partition_never_stops_owning_it",
    ),
    without(
        "group-commit-unfenced",
        "a member commits only for partitions that it owns, in an epoch from theirs to its own",
        [
            edit(OffsetTable, "_require_owner", ("if refusal is not None:", "if False:")),
            edit(
                MemberFences, "require_member", ("if not member.member_id:", "if True:\n        return\n    if True:")
            ),
            edit(MemberFences, "refusal", ("if not member.member_id:", "if True:")),
            edit(offset_table, "_is_repeat", ("if newest.member_epoch > writer.member_epoch:", "if False:")),
        ],
        f"{_FENCES}test_a_commit_for_a_partition_that_was_handed_over_is_refused",
    ),
    without(
        "group-commit-any-epoch",
        "a commit counts from the epoch in which the member got the partition",
        edit(MemberFences, "refusal", (" and owned_since <= member.member_epoch", "")),
        f"{_FENCES}test_a_partition_that_comes_back_has_a_new_epoch",
    ),
    without(
        "group-epoch-not-raised",
        "a member that leaves raises the epoch, so that its partitions are given to others",
        [
            edit(membership, "_leave", ("draft.raise_epoch()", "pass")),
            edit(GroupTable, "_look_at", ("draft.raise_epoch()", "pass")),
            edit(Group, "_check_targets", ("assert len(seen) == wanted", "assert wanted >= 0")),
        ],
        f"{_MEMBERS}test_a_partition_moves_when_the_session_of_its_owner_has_ended",
        f"{_TABLE}test_whatever_happens_nothing_is_owned_twice_and_nobody_starves",
    ),
    without(
        "group-join-copy-revives",
        "the id of an ended membership never joins again",
        edit(membership, "_join", ("or command.member_id in draft.group.left", "")),
        f"{_MEMBERS}test_an_id_is_for_one_membership",
    ),
    without(
        "group-join-copy-lets-go",
        "a copy of a join does not say that anything was let go",
        edit(
            GroupTable,
            "_heartbeat",
            (
                "Shown(member.epoch if is_new else command.epoch, command.applied if command.epoch > 0 else 0)",
                "Shown(command.epoch or member.epoch, command.applied if command.epoch > 0 else member.number)",
            ),
        ),
        f"{_MEMBERS}test_a_copy_of_a_join_does_not_say_that_anything_was_let_go",
    ),
    without(
        "group-late-copy-moves",
        "a late copy of a join or of an older heartbeat moves no member",
        edit(group_table, "reconciled", ("if shown.epoch != member.epoch:", "if False:")),
        f"{_MEMBERS}test_a_late_copy_does_not_move_a_member_past_the_epochs_that_it_knows",
    ),
    without(
        "group-old-subscription",
        "a late copy of an older subscription is not heeded",
        edit(membership, "_go_on", ("or join.subscription.version <= member.subscription.version", "")),
        f"{_MEMBERS}test_a_late_copy_of_an_older_subscription_is_not_heeded",
    ),
    without(
        "group-any-epoch-beats",
        "a heartbeat in another epoch than the member's is fenced",
        edit(
            membership,
            "_check_epoch",
            ("member.is_away or command.epoch not in (member.epoch, member.previous_epoch)", "member.is_away"),
        ),
        f"{_MEMBERS}test_an_epoch_that_is_too_old_is_fenced",
        f"{_MEMBERS}test_a_wrong_epoch_is_fenced_and_a_new_membership_goes_on",
    ),
    without(
        "group-sessions-survive",
        "after a fail-over every session begins again",
        edit(GroupTable, "loaded", ("group.heard(member_id, now_ms)", "group.heard(member_id, 0)")),
        f"{_TIMES}test_a_fail_over_begins_sessions_again",
    ),
    without(
        "group-one-time-to-let-go",
        "each assignment that takes partitions gives the whole rebalance time-out to let them go",
        edit(Group, "heard", ("since_ms if number == member.number else now_ms", "since_ms")),
        f"{_TIMES}test_a_second_revocation_has_its_own_time",
    ),
    without(
        "group-looked-at-always",
        "a group that is kept by its offsets is looked at when they may have expired",
        edit(group_table, "looked_at_for_expiry_ms", ("used_ms or 0", "0")),
        f"{_TIMES}test_a_group_that_is_kept_by_commits_is_looked_at_when_it_may_expire",
    ),
    without(
        "group-never-confirms",
        "a deposed owner answers members for a short time only: now and then an answer waits for an append",
        edit(GroupTable, "_decided", ("confirm = not records and", "confirm = False and")),
        f"{_TABLE}test_the_answer_to_an_idle_heartbeat_costs_an_append_now_and_then",
    ),
    without(
        "group-believes-old-topics",
        "a new owner whose view lags behind takes no topic from its readers",
        edit(GroupTable, "_lags", ("return now_ms <", "return False and now_ms <")),
        "unit/coordinator/core/groups/test_assignment.py::"
        "test_a_new_owner_that_lags_behind_takes_no_topic_from_its_readers",
    ),
    without(
        "group-topics-seem-old",
        "topics that have not changed are as new as the newest revision that this process has seen",
        edit(TopicWatch, "_newest", ("self._topology.metadata != self._metadata()", "False")),
        "unit/coordinator/effects/test_topic_watch.py::test_topics_that_stay_are_told_as_of_each_newer_revision",
    ),
    without(
        "group-no-news",
        "members that wait are told when another one has let go",
        edit(group_table, "_news", ("if waiting:", "if False:")),
        f"{_TABLE}test_members_that_wait_are_told_of_an_assignment_and_of_what_was_let_go",
    ),
    without(
        "group-topics-unnoticed",
        "new topics and partitions that match appear by themselves",
        edit(assignment, "notice_topics", ("draft.raise_epoch()", "pass")),
        "unit/coordinator/core/groups/test_assignment.py::test_new_topics_and_partitions_appear_by_themselves",
    ),
    without(
        "group-static-moves",
        "a static member that comes back moves no other",
        edit(membership, "_begun", ("if before is None:", "if True:")),
        f"{_MEMBERS}test_a_static_member_comes_back_to_its_partitions_without_a_new_epoch",
    ),
    without(
        "group-freed-too-late",
        "a member that has let go wakes those that wait for it",
        edit(Draft, "owner", ('return "" if owner in self._changed else owner', "return owner")),
        f"{_TABLE}test_members_that_wait_are_told_of_an_assignment_and_of_what_was_let_go",
    ),
]
