"""What a follower shows a reader in its leader's place, and what the reader makes of it."""

from __future__ import annotations

from oncelog.client.consume import fetcher
from oncelog.client.consume.fetcher import Fetcher
from oncelog.client.consume.positions import Positions
from oncelog_partition_leader.partition.partition import LocalPartition
from oncelog_partition_leader.partition.readable import Readable
from oncelog_partition_leader.replication.replicas import follower_reads
from oncelog_partition_leader.replication.replicas.follower_reads import FollowerReads
from oncelog_partition_leader.rpc.fetch import Reader
from tests.simulation.planted_bugs import edit, without

_SCRIPTS = "conformance/replication/test_follower_reads.py::"

_LOSSES = "simulation/test_group_losses.py::test_a_group_reads_what_took_the_offsets_of_lost_records"

PLANTS = [
    without(
        "loss-not-told",
        "a reader is refused when the log has lost what it read, whatever stands there by now",
        edit(Readable, "check_read", ("if offset <= end:", "if True:")),
        "unit/partition_leader/partition/test_readable.py::test_a_reader_is_refused_where_the_log_has_lost_what_it_read",
        _LOSSES,
    ),
    without(
        "committed-epoch-forgotten",
        "a group that comes back says in which epoch it read what it has committed",
        edit(
            Positions,
            "_find",
            ("cursor.found(committed.offset, committed.leader_epoch)", "cursor.found(committed.offset)"),
        ),
        "unit/sdk/client/consume/test_positions.py::test_a_group_goes_on_where_a_loss_begins",
        _LOSSES,
    ),
    without(
        "loss-skips-what-was-fetched",
        "after a loss a reader fetches again what it had fetched and not read",
        edit(fetcher, "_goes_on_at", ("return min(cursor.position, cursor.lost_from)", "return cursor.lost_from")),
        "unit/sdk/client/consume/test_fetcher.py::test_what_was_fetched_and_not_read_yet_is_fetched_again_after_a_loss",
    ),
    without(
        "follower-beyond-watermark",
        "a follower shows nothing above the high watermark that its leader told",
        edit(
            FollowerReads,
            "require",
            (
                "partition.log, known_epoch, partition.high_watermark, start",
                "partition.log, known_epoch, partition.log.log_end_offset, start",
            ),
        ),
        _SCRIPTS + "test_what_only_some_replicas_have_is_shown_by_no_follower",
        _SCRIPTS + "test_a_marker_that_is_not_committed_ends_nothing_at_a_follower",
    ),
    without(
        "follower-in-old-epoch",
        "a follower answers readers only when the leader of the newest epoch has told it its high watermark",
        edit(
            follower_reads,
            "obstacle",
            ("if facts.told_epoch == NOTHING_TOLD or facts.told_epoch != facts.known_epoch:", "if False:"),
        ),
        _SCRIPTS + "test_a_follower_answers_in_a_new_epoch_after_it_has_heard_from_its_leader",
    ),
    without(
        "follower-forgets-aborted",
        "a follower names the aborted transactions of what it shows",
        edit(
            Reader,
            "_read",
            (
                "answer.aborted.extend(map(_to_proto, aborted))",
                "answer.aborted.extend(map(_to_proto, aborted) if readable.is_leader else ())",
            ),
        ),
        _SCRIPTS + "test_a_follower_names_what_was_aborted",
        _SCRIPTS + "test_a_new_leader_of_an_aborted_transaction_and_its_followers_agree",
    ),
    without(
        "follower-out-of-isr-answers",
        "a follower that is not in the ISR answers no readers",
        edit(follower_reads, "obstacle", ("if not facts.is_in_sync:", "if False:")),
        _SCRIPTS + "test_a_follower_that_left_the_isr_sends_readers_to_the_leader",
    ),
    without(
        "cut-off-follower-answers",
        "a follower that does not hear its leader answers no readers",
        edit(follower_reads, "obstacle", ("if not facts.hears_leader:", "if False:")),
        _SCRIPTS + "test_a_follower_that_is_cut_off_from_everything_answers_nobody",
    ),
    without(
        "follower-says-out-of-range",
        "only a leader calls an offset out of range",
        edit(Readable, "check_offset", ("if not self.is_leader:", "if False:")),
        _SCRIPTS + "test_a_follower_never_calls_an_offset_out_of_range",
    ),
    without(
        "watermark-wakes-no-reader",
        "a reader at the end waits at a follower no longer than until the watermark comes",
        edit(LocalPartition, "leader_says", ("    self.wake_watchers()", "    pass")),
        _SCRIPTS + "test_a_reader_at_the_end_is_told_of_a_new_record_by_the_follower",
    ),
    without(
        "replicas-compared",
        "what one replica tells of its log's end is not measured by what another one told",
        edit(Fetcher, "_take_one", ("if cursor.source.answered(address):", "if False:")),
        _SCRIPTS + "test_a_reader_that_was_told_of_more_elsewhere_waits_at_a_follower",
    ),
    without(
        "follower-has-last-word",
        "a follower's error sends the reader to the leader",
        edit(Fetcher, "_failed", ("if cursor.source.is_follower:", "if False:")),
        _SCRIPTS + "test_a_follower_that_left_the_isr_sends_readers_to_the_leader",
    ),
]
