"""`client.admin` without `await` (see `oncelog.sync`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog.client.admin.admin import Admin as AsyncAdmin
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
from oncelog.client.routing.offset_lookup import FoundOffset
from oncelog.sync.loop import Wrapper
from oncelog.types import PartitionId


class Admin(Wrapper[AsyncAdmin]):
    """See `oncelog.client.admin.admin`."""

    def create_topic(self, name: str, **options: Any) -> CreatedTopic:
        """Creates a topic: `partitions`, `replication_factor`, `config`, `if_not_exists`, `timeout_ms`."""
        created: CreatedTopic = self._run(self._inner.create_topic(name, **options))
        return created

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its records."""
        self._run(self._inner.delete_topic(name))

    def list_topics(self, *, internal: bool = False) -> list[TopicDescription]:
        """All topics by name."""
        found: list[TopicDescription] = self._run(self._inner.list_topics(internal=internal))
        return found

    def describe_topic(self, name: str) -> TopicDescription:
        """One topic."""
        found: TopicDescription = self._run(self._inner.describe_topic(name))
        return found

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Those of these topics that exist."""
        found: dict[str, TopicDescription] = self._run(self._inner.describe_topics(names))
        return found

    def partition_offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """Offsets of each partition that answers."""
        found: dict[int, PartitionOffsets] = self._run(self._inner.partition_offsets(name))
        return found

    def offsets_of_topic(
        self, name: str, topic_id: str, times: Mapping[int, int], **options: Any
    ) -> dict[int, FoundOffset]:
        """What `times` asks for in the topic of just this id: `isolation_level`."""
        found: dict[int, FoundOffset] = self._run(self._inner.offsets_of_topic(name, topic_id, times, **options))
        return found

    def offsets_of_topics(
        self, topic_ids: Mapping[str, str], *wanted: Mapping[PartitionId, int], **options: Any
    ) -> list[dict[PartitionId, FoundOffset]]:
        """What each of `wanted` asks for in the topics of just these ids (name -> id): `isolation_level`."""
        found: list[dict[PartitionId, FoundOffset]] = self._run(
            self._inner.offsets_of_topics(topic_ids, *wanted, **options)
        )
        return found

    def end_of_epoch(self, topic: str, partition: int, leader_epoch: int, topic_id: str = "") -> int:
        """Where this leader epoch ended in the partition's log."""
        return int(self._run(self._inner.end_of_epoch(topic, partition, leader_epoch, topic_id)))

    def delete_records(self, topic: str, partition: int, before_offset: int = -1) -> int:
        """Deletes records below an offset; returns the new log start offset."""
        return int(self._run(self._inner.delete_records(topic, partition, before_offset)))

    def list_transactions(self, states: Iterable[str] = ()) -> list[TransactionDescription]:
        """Every transactional id, by name."""
        found: list[TransactionDescription] = self._run(self._inner.list_transactions(list(states)))
        return found

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """One transactional id."""
        found: TransactionDescription = self._run(self._inner.describe_transaction(transactional_id))
        return found

    def abort_transaction(self, transactional_id: str) -> int:
        """Aborts the open transaction by an operator's word; its number, or 0."""
        return int(self._run(self._inner.abort_transaction(transactional_id)))

    def cluster_health(self) -> ClusterHealth:
        """What one broker sees of the cluster."""
        found: ClusterHealth = self._run(self._inner.cluster_health())
        return found

    def describe_cluster(self) -> ClusterDescription:
        """Who is there."""
        found: ClusterDescription = self._run(self._inner.describe_cluster())
        return found

    # ------------------------------------------------------------ topics, closely

    def alter_topic(self, name: str, **options: Any) -> AlteredTopic:
        """Sets options: `config`, `unset`, `validate_only`, `timeout_ms`."""
        found: AlteredTopic = self._run(self._inner.alter_topic(name, **options))
        return found

    def add_partitions(self, name: str, partitions: int, **options: Any) -> AlteredTopic:
        """Grows a topic to `partitions` in all."""
        found: AlteredTopic = self._run(self._inner.add_partitions(name, partitions, **options))
        return found

    def topic_configs(self, name: str) -> list[ConfigValue]:
        """Every option of a topic, with its source."""
        found: list[ConfigValue] = self._run(self._inner.topic_configs(name))
        return found

    def describe_partitions(
        self, topics: Sequence[TopicDescription], count_from: Mapping[PartitionId, int] | None = None
    ) -> dict[PartitionId, LogDescription]:
        """What the leaders say of these topics' partitions."""
        found: dict[PartitionId, LogDescription] = self._run(self._inner.describe_partitions(topics, count_from))
        return found

    def min_insync_replicas(self, topics: Sequence[TopicDescription]) -> dict[str, int]:
        """How many replicas of each topic must be in sync for acks=all."""
        found: dict[str, int] = self._run(self._inner.min_insync_replicas(topics))
        return found

    # ------------------------------------------------------------ transactions, closely

    def fence_producer(self, transactional_id: str) -> int:
        """Fences whoever writes under this id; the new producer epoch."""
        return int(self._run(self._inner.fence_producer(transactional_id)))

    def describe_producers(self, topic: str, partition: int) -> list[ProducerDescription]:
        """Who writes to a partition."""
        found: list[ProducerDescription] = self._run(self._inner.describe_producers(topic, partition))
        return found

    def find_hanging(self, topics: Sequence[TopicDescription], **options: Any) -> list[HangingTransaction]:
        """Transactions open on a partition and not at their coordinator: `min_age_ms`."""
        found: list[HangingTransaction] = self._run(self._inner.find_hanging(topics, **options))
        return found

    # ------------------------------------------------------------ groups

    def list_groups(self) -> list[GroupListing]:
        """Every group with an offset."""
        found: list[GroupListing] = self._run(self._inner.list_groups())
        return found

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group's offsets."""
        found: GroupDescription = self._run(self._inner.describe_group(group_id))
        return found

    def set_group_offsets(self, group_id: str, offsets: Mapping[Any, Any]) -> None:
        """Commits offsets in the name of a group."""
        self._run(self._inner.set_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionId] | None = None) -> int:
        """Forgets committed offsets; how many there were."""
        return int(self._run(self._inner.delete_group_offsets(group_id, partitions)))

    # ------------------------------------------------------------ placement

    def transfer_leadership(self, topic: str, partition: int, broker_id: int) -> None:
        """Lets another member of the ISR lead."""
        self._run(self._inner.transfer_leadership(topic, partition, broker_id))

    def survey_replicas(self, topic: str, partition: int) -> ReplicaSurvey:
        """What each replica of a partition has."""
        found: ReplicaSurvey = self._run(self._inner.survey_replicas(topic, partition))
        return found

    def elect_unclean(self, topic: str, partition: int, broker_id: int, *, leader_epoch: int) -> None:
        """Makes a replica lead that may lack acknowledged records."""
        self._run(self._inner.elect_unclean(topic, partition, broker_id, leader_epoch=leader_epoch))

    def reassign_partitions(self, targets: Mapping[Any, Sequence[int]]) -> list[RefusedMove]:
        """Moves replicas; what was refused."""
        found: list[RefusedMove] = self._run(self._inner.reassign_partitions(targets))
        return found

    def list_reassignments(self) -> list[Reassignment]:
        """Moves under way."""
        found: list[Reassignment] = self._run(self._inner.list_reassignments())
        return found

    # ------------------------------------------------------------ brokers

    def broker_loads(self) -> list[BrokerLoad]:
        """What each broker holds."""
        found: list[BrokerLoad] = self._run(self._inner.broker_loads())
        return found

    def decommission(self, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        """These brokers shall hold nothing."""
        found: list[BrokerLoad] = self._run(self._inner.decommission(broker_ids))
        return found

    def recommission(self, broker_ids: Sequence[int]) -> list[BrokerLoad]:
        """These brokers take part again."""
        found: list[BrokerLoad] = self._run(self._inner.recommission(broker_ids))
        return found

    def create_acls(
        self, acls: Sequence[AccessRule] = (), bindings: Sequence[RoleBinding] = (), roles: Sequence[Role] = ()
    ) -> None:
        """Adds rules, bindings and roles: all, or none."""
        self._run(self._inner.create_acls(acls, bindings, roles))

    def delete_acls(
        self, acls: Sequence[AccessRule] = (), bindings: Sequence[RoleBinding] = (), roles: Sequence[str] = ()
    ) -> int:
        """Takes just these away; the number of those that were there."""
        count: int = self._run(self._inner.delete_acls(acls, bindings, roles))
        return count

    def list_acls(self) -> AccessRules:
        """Everything that is in force."""
        found: AccessRules = self._run(self._inner.list_acls())
        return found

    def check_acl(
        self, operation: str, resource_type: str, resource_name: str, *, principal: str = "", host: str = ""
    ) -> AccessDecision:
        """Would this be allowed? `principal` empty: to me."""
        found: AccessDecision = self._run(
            self._inner.check_acl(operation, resource_type, resource_name, principal=principal, host=host)
        )
        return found

    def create_user(self, name: str, password: str) -> None:
        """Adds a user with a password."""
        self._run(self._inner.create_user(name, password))

    def set_password(self, name: str, password: str) -> None:
        """Another password for a user."""
        self._run(self._inner.set_password(name, password))

    def delete_user(self, name: str) -> bool:
        """False: there was none."""
        deleted: bool = self._run(self._inner.delete_user(name))
        return deleted

    def set_quotas(self, quotas: Sequence[Quota]) -> None:
        """Sets these limits, all or none; others stay."""
        self._run(self._inner.set_quotas(quotas))

    def remove_quotas(self, subjects: Sequence[str], kinds: Sequence[str] = ()) -> int:
        """Takes limits of these kinds away (none named: all); the number of those that were there."""
        count: int = self._run(self._inner.remove_quotas(subjects, kinds))
        return count

    def list_quotas(self) -> list[Quota]:
        """What was set, by subject."""
        found: list[Quota] = self._run(self._inner.list_quotas())
        return found

    def describe_quota(self, subject: str = "") -> QuotaDescription:
        """The limits that hold for somebody; empty: for me."""
        found: QuotaDescription = self._run(self._inner.describe_quota(subject))
        return found

    def list_users(self) -> list[UserListing]:
        """By name."""
        found: list[UserListing] = self._run(self._inner.list_users())
        return found
