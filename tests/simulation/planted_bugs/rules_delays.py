"""The rules of delayed records: none before its time, each once whoever leads, none after it was cancelled, none forgotten."""

from __future__ import annotations

from oncelog.core import names
from oncelog_partition_leader.cluster.topics.log_survey import LogSurvey
from oncelog_partition_leader.cluster.topics.upkeep import TopicUpkeep
from oncelog_partition_leader.core.cluster.kept_logs import KeptLogs
from oncelog_partition_leader.core.delays.scheduler import Scheduler
from oncelog_partition_leader.core.delays.timing_wheel import TimingWheel, _Buckets
from oncelog_partition_leader.partition.delays import due_records, waiting_log
from oncelog_partition_leader.partition.delays.mover import Mover
from oncelog_partition_leader.partition.delays.scheduler_run import SchedulerRun
from oncelog_partition_leader.rpc import get_metadata
from oncelog_runtime.serving import topic_access
from tests.simulation.planted_bugs import edit, without

_CORE = "unit/partition_leader/core/delays/test_scheduler.py::"
_WHEEL = "unit/partition_leader/core/delays/test_timing_wheel.py::"
_RUN = "unit/partition_leader/partition/delays/test_scheduler_run.py::"
_MOVER = "unit/partition_leader/partition/delays/test_mover.py::"
_DUE = "unit/partition_leader/partition/delays/test_due_records.py::"
_LOG = "unit/partition_leader/partition/delays/test_waiting_log.py::"
_TOPICS = "unit/partition_leader/cluster/topics/test_upkeep.py::"
_ACCESS = "unit/runtime/serving/test_topic_access.py::"
_NAMES = "unit/sdk/core/test_names.py::"
_WHOLE = "simulation/test_delays.py::"
_RESTORED = "simulation/test_delays_restored.py::"

PLANTS = [
    without(
        "delay-moves-unread",
        "nothing is moved before the log was read to where it ended when the session began",
        edit(SchedulerRun, "run", ("if scheduler.next_offset < begun_at:", "if False:")),
        f"{_RUN}test_nothing_is_moved_before_the_log_was_read_to_where_it_ended_at_the_beginning",
    ),
    without(
        "delay-early",
        "no record is moved before its time",
        edit(TimingWheel, "due", ("take_before(now_ms - TICK_MS + 2)", "take_before(now_ms + 500)")),
        f"{_WHEEL}test_each_pair_comes_once_never_early_and_less_than_a_tick_late",
        f"{_CORE}test_a_record_is_moved_at_its_time_and_not_before",
        f"{_WHOLE}test_a_delayed_record_is_seen_at_its_time_and_not_before",
    ),
    without(
        "delay-cancel-ignored",
        "a record that was cancelled is not moved",
        edit(Scheduler, "take", ("first[self._waiting.among(first[:, 1])]", "first")),
        f"{_CORE}test_a_cancelled_record_is_never_moved_and_one_that_is_moved_is_never_cancelled",
        f"{_RUN}test_a_cancelled_record_never_comes_and_a_refusal_changes_nothing",
        f"{_WHOLE}test_a_cancelled_record_is_not_seen",
    ),
    without(
        "delay-forgotten-by-the-next",
        "a new leader reads the waiting log from its start",
        edit(SchedulerRun, "run", ("Scheduler(self._partition.log.log_start_offset)", "Scheduler(begun_at)")),
        f"{_WHOLE}test_each_record_arrives_once_and_not_before_its_time_whatever_dies",
    ),
    without(
        "delay-moved-without-its-transaction",
        "a move is one transaction: the records and their done batch",
        edit(
            SchedulerRun,
            "_move",
            (
                "await self._mover.move([self._part_of(target, records), self._done(offsets[: records.asked])])",
                "await self._mover.move([self._part_of(target, records)])",
            ),
        ),
        f"{_WHOLE}test_each_record_arrives_once_and_not_before_its_time_whatever_dies",
    ),
    without(
        "delay-done-batch-to-whoever-leads",
        "a done batch is committed in the leadership of its mover",
        edit(Mover, "_write", ("if part.is_own:", "if False:")),
        f"{_MOVER}test_the_part_of_the_waiting_partition_goes_to_its_own_log_and_to_no_leader",
        f"{_WHOLE}test_a_leader_that_was_cut_off_does_not_move_again_what_the_next_one_has_moved",
    ),
    without(
        "delay-done-batch-by-producer-id",
        "done batches are told by their time, not by who wrote them: a removed transactional id gets another producer id",
        edit(waiting_log, "parse", ("header.base_timestamp_ms == _DONE_MS", "header.producer_id == 77")),
        f"{_LOG}test_a_done_batch_is_one_whoever_wrote_it_and_a_client_can_write_none",
    ),
    without(
        "delay-kept-from-the-end",
        "the log is kept from the first record that waits",
        edit(Scheduler, "keep_from", ("self.next_offset if first is None else first", "self.next_offset")),
        f"{_CORE}test_a_record_is_moved_at_its_time_and_not_before",
        f"{_RUN}test_the_start_of_the_log_follows_what_waits",
    ),
    without(
        "delay-refused-blocks",
        "a record that its topic refuses holds up no others",
        edit(Scheduler, "refused", ("if count > 1:", "if True:"), ("self._most = count // 2", "self._most = count")),
        f"{_CORE}test_a_refused_record_holds_up_no_other_and_is_tried_again_after_pauses_that_grow",
        f"{_RUN}test_a_record_that_its_topic_refuses_waits_on_and_holds_up_no_other",
    ),
    without(
        "delay-bucket-not-checked",
        "a bucket's file that is not what was written is noticed",
        edit(TimingWheel, "load", (" or crc32c(waiting, crc32c(bytes(data))) != held.crc", "")),
        f"{_WHEEL}test_a_file_that_is_not_what_was_written_is_noticed_and_nothing_is_forgotten",
    ),
    without(
        "delay-bucket-late",
        "a bucket is read before the first of its records is due",
        edit(_Buckets, "next_ms", ("self.numbers[0] - 1", "self.numbers[0] + 1")),
        f"{_WHEEL}test_each_pair_comes_once_never_early_and_less_than_a_tick_late",
    ),
    without(
        "delay-rot-moved",
        "a record that rotted while it waited is not moved under a new checksum",
        edit(
            due_records._Gathering,
            "unpack",
            ("rows = decode_arrow(data, header)", "rows = decode_arrow(data, header, check_crc=False)"),
        ),
        f"{_DUE}test_a_record_that_is_not_what_was_written_is_not_moved",
    ),
    without(
        "delay-orphan-by-a-late-view",
        "a waiting topic goes when etcd says that its topic is gone, not when a view lags behind",
        edit(
            TopicUpkeep, "_follow_topic", ("as_seen(entry, self._view.topics)", "as_seen(entry, self._view.topics)[:1]")
        ),
        f"{_TOPICS}test_a_waiting_topic_goes_with_its_topic_and_never_because_a_view_lags_behind",
    ),
    without(
        "delay-forgotten-by-etcd",
        "a waiting topic that a restored etcd does not know is made again when brokers keep its log",
        edit(TopicUpkeep, "reconcile", ("await self._make_waiting_topics_again()", "pass")),
        f"{_TOPICS}test_a_waiting_topic_is_made_again_when_a_broker_keeps_its_log",
        f"{_RESTORED}test_what_waits_is_shown_and_delivered_though_etcd_has_forgotten_the_waiting_topic",
    ),
    without(
        "delay-made-elsewhere",
        "a waiting topic that is made again has its replicas where its logs lie",
        edit(KeptLogs, "replicas_for", ("keepers = self.keepers(partition)", "return tuple(planned)")),
        "unit/partition_leader/core/cluster/test_kept_logs.py::test_where_a_partition_is_made",
        f"{_RESTORED}test_the_waiting_topic_is_made_where_its_logs_lie_though_brokers_were_added",
    ),
    without(
        "delay-made-too-early",
        "it is made when every broker has answered",
        edit(KeptLogs, "replicas_for", ("if self.is_early or self.missing:", "if False:")),
        "unit/partition_leader/core/cluster/test_kept_logs.py::test_where_a_partition_is_made",
        f"{_RESTORED}test_a_broker_that_is_down_is_waited_for_until_it_is_decommissioned",
        f"{_RESTORED}test_logs_that_the_waiting_topic_was_moved_away_from_do_not_stand_for_its_newest_ones",
    ),
    without(
        "delay-told-too-early",
        "that all logs are told is not written while brokers may register that the backup does not name",
        edit(TopicUpkeep, "_note_that_logs_are_told", ("or found.is_early", "")),
        f"{_TOPICS}test_in_the_first_seconds_it_is_not_written_that_the_logs_are_told",
    ),
    without(
        "delay-only-the-named",
        "a broker that was added after the backup is waited for, when another one has seen it",
        edit(LogSurvey, "result", ("named | self._seen", "named")),
        "unit/partition_leader/cluster/topics/test_log_survey.py"
        "::test_a_broker_that_others_have_seen_is_waited_for_though_etcd_has_never_heard_of_it",
        f"{_RESTORED}test_brokers_that_the_backup_does_not_know_are_waited_for",
    ),
    without(
        "delay-nothing-waits",
        "nobody is told that nothing waits before every broker has told which logs it keeps",
        edit(get_metadata, "metadata_reply", ("searches_logs=not view.logs_are_told", "searches_logs=False")),
        "unit/partition_leader/rpc/test_get_metadata.py"
        "::test_after_a_restore_it_is_told_that_logs_are_searched_until_all_brokers_have_told_theirs",
        f"{_RESTORED}test_a_broker_that_is_down_is_waited_for_until_it_is_decommissioned",
    ),
    without(
        "delay-for-the-cluster",
        "no client writes to the cluster's own topics by way of a broker that moves what waits for them",
        edit(names, "waiting_topic", ('if topic.startswith("__"):', "if False:")),
        f"{_NAMES}test_a_topic_has_a_waiting_topic_unless_its_name_is_too_long_or_it_is_the_clusters_own",
    ),
    without(
        "delay-session-of-a-client",
        "no client begins a session of a scheduler's transactional id",
        edit(topic_access, "require_transactional_id", ("call.listener != INTERNAL", "False")),
        f"{_ACCESS}test_the_ids_of_schedulers_are_open_to_services_alone",
    ),
]
