"""Admin without `await` (see `oncelog.sync`).

Written by scripts/gen_sync.py from the asynchronous classes; not to be edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from oncelog.client.admin.admin import Admin as AsyncAdmin
from oncelog.client.admin.channel_descriptions import (
    ChannelDescription,
    ChannelListing,
    ClaimedMessages,
    CreatedChannel,
    PendingMessage,
)
from oncelog.client.admin.delay_admin import DelayedPartition
from oncelog.client.admin.descriptions import (
    AlteredTopic,
    ClusterDescription,
    ClusterHealth,
    ConfigValue,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    LogDescription,
    PartitionOffsets,
    ProducerDescription,
    Reassignment,
    RefusedMove,
    ReplicaSurvey,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.admin.operations_admin import BrokerLoad
from oncelog.client.admin.quota_admin import Quota, QuotaDescription
from oncelog.client.admin.security_admin import AccessDecision, AccessRule, AccessRules, Role, RoleBinding, UserListing
from oncelog.client.admin.transaction_admin import HANGING_AGE_MS
from oncelog.client.consume.offsets import OffsetAndMetadata
from oncelog.client.routing.offset_lookup import FoundOffset
from oncelog.config import EARLIEST, READ_COMMITTED
from oncelog.sync.loop import Wrapper
from oncelog.types import PartitionId, TopicPartition

if TYPE_CHECKING:
    from oncelog.option_types import ChannelOptionsGiven


class Admin(Wrapper[AsyncAdmin]):
    """`client.admin`. See `oncelog.client.admin.admin`."""

    def cluster_health(self) -> ClusterHealth:
        """Returns the cluster as one broker sees it. Raises `ClusterUnreachableError` when no broker answers."""
        return self._run(self._inner.cluster_health())

    def describe_cluster(self) -> ClusterDescription:
        """Returns the processes of the cluster. Raises `ClusterUnreachableError` when no broker answers."""
        return self._run(self._inner.describe_cluster())

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 0,
        config: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        timeout_ms: int = 30_000,
    ) -> CreatedTopic:
        """Creates a topic and returns when each partition has a leader. `replication_factor` 0 = the cluster's default.

        Raises `TopicExistsError` unless `if_not_exists`, `InvalidTopicError`, `InvalidPartitionsError`,
        `InvalidReplicationFactorError` or `ConfigError`.
        """
        return self._run(
            self._inner.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                if_not_exists=if_not_exists,
                timeout_ms=timeout_ms,
            )
        )

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records. Raises `UnknownTopicError`.

        The one that has the name now: a later topic of that name is not touched, however late the call arrives.
        """
        self._run(self._inner.delete_topic(name))

    def list_topics(self, *, internal: bool = False) -> list[TopicDescription]:
        """All topics by name; the cluster's own ones only with `internal`."""
        return self._run(self._inner.list_topics(internal=internal))

    def describe_topic(self, name: str) -> TopicDescription:
        """One topic. Raises `UnknownTopicError`."""
        return self._run(self._inner.describe_topic(name))

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Those of these topics that exist, by name, in the order of `names`; one call for all."""
        return self._run(self._inner.describe_topics(list(names)))

    def partition_offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Offsets of each partition that answers. Raises `UnknownTopicError`."""
        return self._run(self._inner.partition_offsets(name))

    def offsets_of_topic(
        self, name: str, topic_id: str, times: Mapping[int, int], isolation_level: str = READ_COMMITTED
    ) -> dict[int, FoundOffset]:
        """Returns the offsets that `times` asks for, in the topic of just this id: partition -> ms since 1970 (or -1 the end,
        -2 the beginning).

        Raises `UnknownTopicError` when the name is another topic's by now.
        """
        return self._run(self._inner.offsets_of_topic(name, topic_id, times, isolation_level))

    def offsets_of_topics(
        self, topic_ids: Mapping[str, str], *wanted: Mapping[PartitionId, int], isolation_level: str = READ_COMMITTED
    ) -> list[dict[PartitionId, FoundOffset]]:
        """Returns the offsets that `wanted` asks for, as in `offsets_of_topic`, of topics (name -> id), all at the same time.

        Raises `UnknownTopicError` when a name is another topic's by now.
        """
        return self._run(self._inner.offsets_of_topics(topic_ids, *wanted, isolation_level=isolation_level))

    def end_of_epoch(self, topic: str, partition: int, leader_epoch: int, topic_id: str = "") -> int:
        """The offset (exclusive) at which this leader epoch ended in the log; a position above it was cut off.

        With a `topic_id`, raises `UnknownTopicError` when the name is another topic's by now.
        """
        return self._run(self._inner.end_of_epoch(topic, partition, leader_epoch, topic_id))

    def delete_records(self, topic: str, partition: int, before_offset: int = -1) -> int:
        """Deletes records below an offset (-1 = everything committed by now); returns the new log start offset.

        Raises `UnknownTopicError`, `OffsetOutOfRangeError` or `ConfigError`.
        """
        return self._run(self._inner.delete_records(topic, partition, before_offset))

    def alter_topic(
        self,
        name: str,
        *,
        config: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        validate_only: bool = False,
        timeout_ms: int = 30_000,
    ) -> AlteredTopic:
        """Sets options, and puts those in `unset` back to the cluster's default; in force everywhere, without restart.

        Raises `UnknownTopicError`, `InvalidTopicError` (one of the cluster's own) or `ConfigError`.
        """
        return self._run(
            self._inner.alter_topic(
                name, config=config, unset=list(unset), validate_only=validate_only, timeout_ms=timeout_ms
            )
        )

    def add_partitions(self, name: str, partitions: int, *, timeout_ms: int = 30_000) -> AlteredTopic:
        """Grows a topic to `partitions` in all; never fewer than it has. Keys go to other partitions from then on.

        Raises `UnknownTopicError`, `InvalidTopicError`, `InvalidPartitionsError` or `InvalidReplicationFactorError`.
        """
        return self._run(self._inner.add_partitions(name, partitions, timeout_ms=timeout_ms))

    def topic_configs(self, name: str) -> list[ConfigValue]:
        """Every option of a topic, with its source and what may stand in it. Raises `UnknownTopicError`."""
        return self._run(self._inner.topic_configs(name))

    def min_insync_replicas(self, topics: Sequence[TopicDescription]) -> dict[str, int]:
        """Topic -> how many replicas must be in sync for acks=all; more than there are means all of them."""
        return self._run(self._inner.min_insync_replicas(topics))

    def describe_partitions(
        self, topics: Sequence[TopicDescription], count_from: Mapping[PartitionId, int] | None = None
    ) -> dict[PartitionId, LogDescription]:
        """Returns what the leaders say of these topics' partitions, in one look: a partition that does not answer is absent.

        `count_from`: partition -> the offset from which its committed records are counted; then only these are asked.
        """
        return self._run(self._inner.describe_partitions(topics, count_from))

    def transfer_leadership(self, topic: str, partition: int, broker_id: int) -> None:
        """Lets another member of the ISR lead. Raises why that cannot be."""
        self._run(self._inner.transfer_leadership(topic, partition, broker_id))

    def survey_replicas(self, topic: str, partition: int) -> ReplicaSurvey:
        """Asks every replica of a partition what it has. Raises `UnknownTopicError`."""
        return self._run(self._inner.survey_replicas(topic, partition))

    def elect_unclean(self, topic: str, partition: int, broker_id: int, *, leader_epoch: int) -> None:
        """Makes a replica lead that may lack acknowledged records: what only others had is lost for good.

        `leader_epoch`: as `survey_replicas` told it. Raises `IneligibleReplicaError` when the partition has a leader or has
        changed since, or the broker does not answer.
        """
        self._run(self._inner.elect_unclean(topic, partition, broker_id, leader_epoch=leader_epoch))

    def reassign_partitions(
        self, targets: Mapping[TopicPartition, Sequence[int]] | Mapping[tuple[str, int], Sequence[int]]
    ) -> list[RefusedMove]:
        """(topic, partition) -> broker ids, the preferred leader first; none of them = cancel the move.

        Returns when the moves are durably wanted; `list_reassignments` says how far they are. What was refused is in the
        answer, the others go on. Raises `UnknownTopicError`.
        """
        return self._run(self._inner.reassign_partitions(targets))

    def list_reassignments(self) -> list[Reassignment]:
        """Moves under way, by topic and partition, as one broker sees them."""
        return self._run(self._inner.list_reassignments())

    def broker_loads(self) -> list[BrokerLoad]:
        """Every broker that is registered, holds something, or is out of use."""
        return self._run(self._inner.broker_loads())

    def decommission(self, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        """These brokers shall hold nothing: their replicas move away. Safe to repeat.

        Raises `InvalidReplicaAssignmentError` when too few brokers would be left for the replicas of some topic.
        """
        return self._run(self._inner.decommission(broker_ids))

    def recommission(self, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        """These brokers take part again. Moves that are under way are not undone."""
        return self._run(self._inner.recommission(broker_ids))

    def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionDescription]:
        """Every transactional id, by name; only these states when any is given.

        Complete: a shard that moves or loads is waited for. Raises `CoordinatorNotAvailableError` when one of them
        does not answer until the deadline.
        """
        return self._run(self._inner.list_transactions(list(states)))

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Returns one transactional id. Raises `InvalidPidMappingError` for one that is not known."""
        return self._run(self._inner.describe_transaction(transactional_id))

    def abort_transaction(self, transactional_id: str) -> int:
        """Aborts the open transaction by an operator's word; returns its number, 0 when none was open.

        Only the one that is open now, or may be at a leader: what begins later is not touched, however late the call arrives.
        """
        return self._run(self._inner.abort_transaction(transactional_id))

    def fence_producer(self, transactional_id: str) -> int:
        """Begins a session that no producer has: aborts what is open, and the producer that wrote under this id is fenced.

        Returns the new producer epoch. Raises `InvalidPidMappingError` for an id that is not known.
        """
        return self._run(self._inner.fence_producer(transactional_id))

    def describe_producers(self, topic: str, partition: int) -> list[ProducerDescription]:
        """Returns the writers of a partition, as its leader knows them: transactional ones last. Raises `UnknownTopicError`."""
        return self._run(self._inner.describe_producers(topic, partition))

    def find_hanging(
        self, topics: Sequence[TopicDescription], min_age_ms: int = HANGING_AGE_MS
    ) -> list[HangingTransaction]:
        """Transactions that are open on a partition of these topics for `min_age_ms`, and not at their coordinator.

        The partitions are asked first: what ends in between is not taken for hanging. Raises when a leader or a shard
        does not answer until the deadline: "nothing hangs" is never said of what was not looked at.
        """
        return self._run(self._inner.find_hanging(topics, min_age_ms))

    def list_groups(self) -> list[GroupListing]:
        """Every group with members or with an offset, committed or pending, by name. Raises `CoordinatorNotAvailableError`."""
        return self._run(self._inner.list_groups())

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group's members, its offsets, and those that wait for open transactions. A group that was never used has none."""
        return self._run(self._inner.describe_group(group_id))

    def set_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int],
    ) -> None:
        """Commits offsets, (topic, partition) -> offset, in the name of a group. Raises the first refusal.

        Raises `UnknownTopicError` for an offset with the id of a topic that was created again since: then none is committed.
        Raises `NonEmptyGroupError` while the group has members: stop them first.
        """
        self._run(self._inner.set_group_offsets(group_id, offsets))

    def remove_group_members(
        self, group_id: str, members: Iterable[str] = (), *, instance_ids: Iterable[str] = ()
    ) -> list[str]:
        """Ends memberships in their members' name, at once; returns the ids of those that it ended, in the group's order.

        For members whose process is gone: their partitions do not wait for the end of the session. A process that still runs
        learns it with its next heartbeat, stops reading, and joins again with a new id, so stop it first. Members that are not
        there are left out, so a repeat does nothing. It takes DELETE and DESCRIBE on the group, and stands in the audit log.
        """
        return self._run(self._inner.remove_group_members(group_id, list(members), instance_ids=list(instance_ids)))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionId] | None = None) -> int:
        """Forgets committed offsets, None = all of the group; returns how many there were.

        Raises `NonEmptyGroupError` for all of a group with members, and `GroupSubscribedToTopicError` for those that they
        read. Raises `UnstableOffsetCommitError` when an open transaction still holds one of them at the deadline.
        """
        return self._run(self._inner.delete_group_offsets(group_id, None if partitions is None else list(partitions)))

    def create_acls(
        self, acls: Sequence[AccessRule] = (), bindings: Sequence[RoleBinding] = (), roles: Sequence[Role] = ()
    ) -> None:
        """Adds all of them, at most 100 together, or none. Raises `InvalidRequestError`."""
        self._run(self._inner.create_acls(acls, bindings, roles))

    def delete_acls(
        self, acls: Sequence[AccessRule] = (), bindings: Sequence[RoleBinding] = (), roles: Sequence[str] = ()
    ) -> int:
        """Takes just these away; the number of those that were there."""
        return self._run(self._inner.delete_acls(acls, bindings, roles))

    def list_acls(self) -> AccessRules:
        """Rules, bindings and roles, built-in ones too."""
        return self._run(self._inner.list_acls())

    def check_acl(
        self, operation: str, resource_type: str, resource_name: str, *, principal: str = "", host: str = ""
    ) -> AccessDecision:
        """Would this be allowed? `principal` empty: to me."""
        return self._run(self._inner.check_acl(operation, resource_type, resource_name, principal=principal, host=host))

    def create_user(self, name: str, password: str) -> None:
        """Adds a user. The password stays in this process: what is sent and stored only proves it."""
        self._run(self._inner.create_user(name, password))

    def set_password(self, name: str, password: str) -> None:
        """Another password for a user; links that the old one let in end."""
        self._run(self._inner.set_password(name, password))

    def delete_user(self, name: str) -> bool:
        """False: there was none."""
        return self._run(self._inner.delete_user(name))

    def list_users(self) -> list[UserListing]:
        """By name."""
        return self._run(self._inner.list_users())

    def set_quotas(self, quotas: Sequence[Quota]) -> None:
        """Sets these limits, of at most 100 subjects, all or none; others stay. Raises `InvalidRequestError`."""
        self._run(self._inner.set_quotas(quotas))

    def remove_quotas(self, subjects: Sequence[str], kinds: Sequence[str] = ()) -> int:
        """Takes limits of these kinds away (none named: all); the number of those that were there."""
        return self._run(self._inner.remove_quotas(subjects, kinds))

    def list_quotas(self) -> list[Quota]:
        """Returns the quotas that were set, by subject."""
        return self._run(self._inner.list_quotas())

    def describe_quota(self, subject: str = "") -> QuotaDescription:
        """Returns the limits that hold for a subject; empty: for the caller, which every caller may ask."""
        return self._run(self._inner.describe_quota(subject))

    def cancel_delayed(self, topic: str, partition: int, offset: int) -> None:
        """Takes a delayed record out before its time: when this returns, it will never be delivered.

        `topic`: the one it was sent to. `partition` and `offset`: where it waits, as `send` returned.
        Raises `NotScheduledError` when it was delivered or cancelled before, or never waited; `UnknownTopicError` when nothing
        has ever waited for the topic; `RequestTimedOutError` while an open transaction hides the record: it may be cancelled or
        not; `ConfigError` for what is no partition or offset.
        """
        self._run(self._inner.cancel_delayed(topic, partition, offset))

    def describe_delayed(self, topic: str) -> list[DelayedPartition]:
        """Returns what waits for each partition of a topic; nothing for a topic without delayed records.

        Raises `LeaderNotAvailableError` while it is not known where they wait: etcd was restored, and a broker is away.
        """
        return self._run(self._inner.describe_delayed(topic))

    def create_channel(
        self,
        topic: str,
        channel: str,
        *,
        start: str | int = EARLIEST,
        if_not_exists: bool = False,
        **options: Unpack[ChannelOptionsGiven],
    ) -> CreatedChannel:
        """Makes a channel. `start`: "earliest", "latest", or milliseconds since 1970: the first record at or after.

        `options` are those of `WorkerConfig` that belong to the channel. Raises `ChannelExistsError` unless `if_not_exists`,
        `UnknownTopicError`, `InvalidRequestError` for a name that is none, `ConfigError`.
        """
        return self._run(
            self._inner.create_channel(topic, channel, start=start, if_not_exists=if_not_exists, **options)
        )

    def alter_channel(self, topic: str, channel: str, **options: Unpack[ChannelOptionsGiven]) -> ChannelListing:
        """Changes options of a channel; the others stay. Returns how it is now.

        `order_by_key` and `ephemeral` cannot be changed. Raises `UnknownChannelError`, `ConfigError`, `InvalidRequestError`.
        """
        return self._run(self._inner.alter_channel(topic, channel, **options))

    def pause_channel(self, topic: str, channel: str) -> ChannelListing:
        """Nothing is delivered until `resume_channel`; what was delivered may be settled. Raises `UnknownChannelError`."""
        return self._run(self._inner.pause_channel(topic, channel))

    def resume_channel(self, topic: str, channel: str) -> ChannelListing:
        """Ends a pause. Raises `UnknownChannelError`."""
        return self._run(self._inner.resume_channel(topic, channel))

    def delete_channel(self, topic: str, channel: str) -> None:
        """Deletes a channel with all that it remembers; the records of the topic stay. Raises `UnknownChannelError`."""
        self._run(self._inner.delete_channel(topic, channel))

    def list_channels(self, *topics: str) -> list[ChannelListing]:
        """The channels of these topics (none = of all), by topic and name, as some broker last saw them."""
        return self._run(self._inner.list_channels(*topics))

    def describe_channel(self, topic: str, channel: str) -> ChannelDescription:
        """How far a channel is on each partition, and who works. Raises `UnknownChannelError`."""
        return self._run(self._inner.describe_channel(topic, channel))

    def pending(
        self,
        topic: str,
        channel: str,
        *,
        partition: int | None = None,
        worker_id: str = "",
        min_idle_ms: int = 0,
        from_offset: int = 0,
        limit: int = 100,
    ) -> list[PendingMessage]:
        """Records that were delivered and are not settled, by partition and offset, at most `limit` (1 to 10,000) of each
        partition.

        `partition`: only of this one; `worker_id`: only those that it holds; `min_idle_ms`: only those that were delivered
        at least so long ago. Raises `UnknownChannelError`, `ConfigError` for a number out of its range, `InvalidRequestError`
        for a name that no worker has, and why a leader did not answer. Redis: XPENDING.
        """
        return self._run(
            self._inner.pending(
                topic,
                channel,
                partition=partition,
                worker_id=worker_id,
                min_idle_ms=min_idle_ms,
                from_offset=from_offset,
                limit=limit,
            )
        )

    def claim(
        self,
        topic: str,
        channel: str,
        partition: int,
        *,
        offsets: Iterable[int] = (),
        min_idle_ms: int = 0,
        max_records: int = 100,
        then: str = "release",
        reason: str = "",
    ) -> list[ClaimedMessages]:
        """Takes records from the workers that hold them, and does with them what `then` says. Returns which it took.

        "release": they come again at once; "ack": they are done; "reject": they are dead, with the `reason`. `offsets`:
        these, whether a worker holds them or they wait to come again; none = what workers hold, delivered at least
        `min_idle_ms` ago. It takes at most `max_records`, which is 1 to 1,000. A claim is a delivery: a record that was
        never delivered is not taken, nor one in its last delivery (`max_deliveries`), which is dead when that ends,
        nor what a worker was given or has touched less than a second ago: that worker may hand it out in this moment.
        Raises `UnknownChannelError`, `ConfigError`, and `InvalidRequestError` for a long reason, before it takes anything. A
        worker takes records over for itself with `Worker.claim`. Redis: XCLAIM.
        """
        return self._run(
            self._inner.claim(
                topic,
                channel,
                partition,
                offsets=list(offsets),
                min_idle_ms=min_idle_ms,
                max_records=max_records,
                then=then,
                reason=reason,
            )
        )

    def seek_channel(
        self, topic: str, channel: str, to: str | int, *, partition: int | None = None, timestamp_ms: int = 0
    ) -> dict[int, int]:
        """Goes on elsewhere: everything before is done, everything from there on comes (again). Returns partition -> offset.

        `to`: "earliest", "latest", or an offset, for which a `partition` is named; it is not looked at with a
        `timestamp_ms` above 0: then each partition goes on at its first record at or after that time. Raises
        `UnknownChannelError`, `ConfigError`.
        """
        return self._run(self._inner.seek_channel(topic, channel, to, partition=partition, timestamp_ms=timestamp_ms))
