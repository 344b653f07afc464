"""Administration: topics, transactions, groups, the health of a cluster. `client.admin`.

Every call is tried again until `default_api_timeout_ms`; creating, altering and deleting are safe to repeat.
"""

from __future__ import annotations

from oncelog.client.admin.channel_admin import ChannelAdmin
from oncelog.client.admin.channel_descriptions import (
    ChannelDescription,
    ChannelListing,
    ChannelOptions,
    ChannelPartitionState,
    ChannelWorker,
    ClaimedMessages,
    CreatedChannel,
    PendingMessage,
)
from oncelog.client.admin.cluster_admin import ClusterAdmin
from oncelog.client.admin.delay_admin import DelayAdmin, DelayedPartition
from oncelog.client.admin.descriptions import (
    AlteredTopic,
    BrokerDescription,
    ClusterDescription,
    ClusterHealth,
    ConfigValue,
    CoordinatorDescription,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
    GroupOffset,
    HangingTransaction,
    LaggingReplica,
    LogDescription,
    PartitionDescription,
    PartitionOffsets,
    PendingOffsets,
    ProducerDescription,
    Reassignment,
    RefusedMove,
    ReplicaSurvey,
    SurveyedReplica,
    TopicDescription,
    TransactionDescription,
)
from oncelog.client.admin.group_admin import GroupAdmin
from oncelog.client.admin.operations_admin import BrokerLoad, OperationsAdmin
from oncelog.client.admin.placement_admin import PlacementAdmin
from oncelog.client.admin.quota_admin import EffectiveLimit, Quota, QuotaAdmin, QuotaDescription
from oncelog.client.admin.security_admin import (
    AccessDecision,
    AccessRule,
    AccessRules,
    Role,
    RoleBinding,
    RoleRule,
    SecurityAdmin,
    UserListing,
)
from oncelog.client.admin.transaction_admin import TransactionAdmin


class Admin(
    ClusterAdmin,
    PlacementAdmin,
    OperationsAdmin,
    TransactionAdmin,
    GroupAdmin,
    SecurityAdmin,
    QuotaAdmin,
    DelayAdmin,
    ChannelAdmin,
):
    """See the module. Made by the client."""


__all__ = [
    "AccessDecision",
    "AccessRule",
    "AccessRules",
    "Admin",
    "AlteredTopic",
    "BrokerDescription",
    "BrokerLoad",
    "ChannelDescription",
    "ChannelListing",
    "ChannelOptions",
    "ChannelPartitionState",
    "ChannelWorker",
    "ClaimedMessages",
    "ClusterDescription",
    "ClusterHealth",
    "ConfigValue",
    "CoordinatorDescription",
    "CreatedChannel",
    "CreatedTopic",
    "DelayedPartition",
    "EffectiveLimit",
    "GroupDescription",
    "GroupListing",
    "GroupMemberDescription",
    "GroupOffset",
    "HangingTransaction",
    "LaggingReplica",
    "LogDescription",
    "PartitionDescription",
    "PartitionOffsets",
    "PendingMessage",
    "PendingOffsets",
    "ProducerDescription",
    "Quota",
    "QuotaDescription",
    "Reassignment",
    "RefusedMove",
    "ReplicaSurvey",
    "Role",
    "RoleBinding",
    "RoleRule",
    "SurveyedReplica",
    "TopicDescription",
    "TransactionDescription",
    "UserListing",
]
