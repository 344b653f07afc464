"""What is promised about outcomes and names, and the scripts that show it; see `cases`."""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import Case


def _outcome(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/transactions/test_outcomes.py::{name}" for name in names))


def _removed(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/transactions/test_removed_ids.py::{name}" for name in names))


def _copies(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_copies.py::{name}" for name in names))


OUTCOMES: Final[dict[str, Case]] = {
    "outcome 1": _outcome(
        "no two transactions have one name",
        "test_two_transactional_ids_never_share_a_producer_id",
        "test_whoever_notes_a_number_and_dies_before_it_writes_is_never_told_that_it_committed",
        "test_a_number_that_was_looked_at_is_not_used_for_the_next_transaction",
    ),
    "outcome 2": _outcome(
        "whatever may be open can be ended by an operator",
        "test_force_abort_ends_what_a_dead_coordinator_let_a_leader_open",
    ),
    "outcome 3": _outcome(
        "a transaction is forgotten when it is on disk, and what a power cut takes before that is named",
        "test_a_transaction_that_is_complete_survives_a_power_cut_of_all_replicas",
        "test_one_that_loses_a_part_before_it_is_complete_is_named",
        "test_commits_wait_for_no_disk_of_a_replicated_topic",
        "test_followers_of_version_0_1_which_cannot_say_what_is_on_disk_count_as_they_did",
    ),
    "outcome 4": _outcome(
        "a number that nobody began is not ongoing",
        "test_a_number_that_nobody_began_is_told_as_such_by_every_owner_of_the_shard",
        "test_a_number_that_was_not_begun_is_never_a_successors",
    ),
    "outcome 5": _removed(
        "an id that nobody uses is removed, and nothing old in its name is taken for something new",
        "test_a_zombie_of_a_removed_id_writes_nothing_also_when_the_id_is_used_again",
        "test_the_outcome_of_a_removed_id_is_forgotten_for_ever",
        "test_a_producer_that_slept_for_too_long_is_told_and_a_new_one_goes_on",
    ),
    "outcome 6": _removed(
        "an id with something unfinished, or with a token that must last, is not removed",
        "test_an_id_with_a_token_stays_and_one_whose_token_expires_goes",
        "test_an_id_whose_marker_does_not_arrive_is_not_removed",
        "test_an_id_whose_participant_lives_is_not_removed",
    ),
    "copies 1": _copies(
        "a copy of a call that arrives late changes nothing of what came since",
        "test_a_late_copy_changes_nothing_of_the_newer_state",
        "test_every_method_has_a_row",
        "test_the_documentation_shows_the_table",
    ),
    "copies 2": _copies(
        "calls of version 0.1, which name nothing, are restricted where they could destroy something",
        "test_an_older_client_that_deletes_by_name_is_refused_where_the_name_has_changed_hands",
        "test_an_older_clients_end_of_the_log_is_the_end_as_first_asked",
    ),
    "copies 3": _copies(
        "a try of a plain-records call goes where the one before it went",
        "test_an_idempotent_caller_of_plain_records_names_the_partition",
    ),
}
