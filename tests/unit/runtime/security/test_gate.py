"""Refused requests never reach the handler; of a request with items, the refused ones are answered in their places."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.ports import Handler
from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog_runtime.core.security.access import Decided, Policy
from oncelog_runtime.core.security.acl import CLUSTER_NAME, Acl, Operation, PatternType, ResourceType
from oncelog_runtime.security.gate import handler_of
from oncelog_runtime.serving.call_context import CALL, CallInfo

TOPICS = {"a" * 32: "mine", "b" * 32: "theirs", "c" * 32: "seen"}
MINE, THEIRS, SEEN = TOPICS
UNKNOWN = "d" * 32
T = ResourceType.TOPIC


def rule(operation: Operation, name: str, kind: ResourceType = T, principal: str = "User:ann") -> Acl:
    return Acl(principal, kind, PatternType.LITERAL, name, operation)


class Log:
    """Takes down what is recorded."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def record(self, decided: Decided) -> None:
        self.lines.append(decided._asdict())

    def unauthenticated(self, **line: Any) -> None:
        self.lines.append(line)


@pytest.fixture
def policy() -> Policy:
    policy = Policy(["User:root"])
    policy.topic_name = TOPICS.get
    policy.audit = Log()
    policy.replace(
        [
            rule(Operation.READ, "mine"),
            rule(Operation.WRITE, "mine"),
            rule(Operation.DESCRIBE, "seen"),
            rule(Operation.DESCRIBE_CONFIGS, "mine"),
            rule(Operation.READ, "g", ResourceType.GROUP),
            rule(Operation.WRITE, "t", ResourceType.TRANSACTIONAL_ID),
        ],
        [],
        {},
    )
    return policy


class Served:
    """A handler that answers `reply`, and what it was asked."""

    def __init__(self, spec: methods.MethodSpec[Any, Any], reply: Any = None) -> None:
        self.spec = spec
        self.reply = reply if reply is not None else spec.reply()
        self.asked: list[tuple[Any, bytes]] = []
        self.handler: Handler = handler_of(spec, self._serve)

    async def _serve(self, request: Any, payload: Buffer) -> tuple[Any, Buffer]:
        self.asked.append((request, bytes(payload)))
        return self.reply, b"bulk"

    def call(self, policy: Policy | None, request: Any, payload: bytes = b"", who: str = "User:ann") -> Any:
        async def run() -> Any:
            if policy is not None:
                CALL.set(CallInfo("ipv4:10.0.0.1:1", listener="client", access=policy.access(who, "10.0.0.1")))
            header, _ = await self.handler(request.SerializeToString(), payload)
            return self.spec.reply.FromString(header)

        return asyncio.run(run())


def codes(items: Any) -> list[int]:
    return [item.error.code if item.HasField("error") else 0 for item in items]


def produce(*topic_ids: str, transactional_id: str = "") -> pb.ProduceRequest:
    return pb.ProduceRequest(
        acks=-1,
        partitions=[
            pb.ProducePartition(topic_id=t, partition=n, length=1, transactional_id=transactional_id)
            for n, t in enumerate(topic_ids)
        ],
    )


def answers(*topic_ids: str) -> pb.ProduceReply:
    return pb.ProduceReply(partitions=[pb.ProducePartitionReply(topic_id=t, base_offset=7) for t in topic_ids])


def test_services_and_clusters_without_rules_are_not_asked() -> None:
    served = Served(methods.PRODUCE, answers(THEIRS))
    assert codes(served.call(None, produce(THEIRS), b"x").partitions) == [0]


def test_batches_of_other_topics_are_taken_out_and_answered_in_their_places(policy: Policy) -> None:
    served = Served(methods.PRODUCE, answers(MINE, MINE))
    reply = served.call(policy, produce(THEIRS, MINE, SEEN, MINE, UNKNOWN), b"tmsMu")
    refused = errors.TopicAuthorizationError.code
    assert codes(reply.partitions) == [3, 0, refused, 0, 3]
    assert [item.topic_id for item in reply.partitions] == [THEIRS, MINE, SEEN, MINE, UNKNOWN]
    ((request, payload),) = served.asked
    assert [item.topic_id for item in request.partitions] == [MINE, MINE]
    assert payload == b"mM"


def test_a_topic_that_one_may_not_see_reads_like_one_that_is_not_there(policy: Policy) -> None:
    served = Served(methods.PRODUCE)
    hidden, unknown = served.call(policy, produce(THEIRS, UNKNOWN), b"xy").partitions
    assert str(hidden.error).replace(THEIRS, "?") == str(unknown.error).replace(UNKNOWN, "?")
    assert not served.asked


def test_lengths_that_lie_are_refused_before_the_payload_is_cut(policy: Policy) -> None:
    request = produce(MINE, THEIRS)
    request.partitions[0].length = -1
    with pytest.raises(errors.InvalidRequestError):
        Served(methods.PRODUCE).call(policy, request, b"")


def test_without_acks_nothing_is_answered_and_nothing_is_written(policy: Policy) -> None:
    request = produce(THEIRS)
    request.acks = 0
    served = Served(methods.PRODUCE)
    assert not served.call(policy, request, b"x").partitions
    assert not served.asked


def test_a_transactional_batch_needs_its_transactional_id_too(policy: Policy) -> None:
    served = Served(methods.PRODUCE, answers(MINE))
    assert codes(served.call(policy, produce(MINE, transactional_id="t"), b"x").partitions) == [0]
    for _ in range(2):  # the topic is remembered by now; the id is asked for all the same
        reply = served.call(policy, produce(MINE, transactional_id="other"), b"x")
        assert codes(reply.partitions) == [errors.TransactionalIdAuthorizationError.code]
    assert len(served.asked) == 1


def test_a_fetch_with_a_refused_topic_answers_at_once(policy: Policy) -> None:
    served = Served(methods.FETCH, pb.FetchReply(partitions=[pb.FetchedPartition(topic_id=MINE)]))
    parts = [pb.FetchPartition(topic_id=MINE), pb.FetchPartition(topic_id=THEIRS)]
    reply = served.call(policy, pb.FetchRequest(max_wait_ms=5000, partitions=parts))
    assert codes(reply.partitions) == [0, 3]
    assert served.asked[0][0].max_wait_ms == 0


def test_metadata_names_what_may_be_seen(policy: Policy) -> None:
    everything = pb.GetMetadataReply(topics=[pb.TopicInfo(name=name) for name in TOPICS.values()])
    reply = Served(methods.GET_METADATA, everything).call(policy, pb.GetMetadataRequest(all_topics=True))
    assert [topic.name for topic in reply.topics] == ["mine", "seen"]
    served = Served(methods.GET_METADATA, pb.GetMetadataReply(cluster_id="c"))
    reply = served.call(policy, pb.GetMetadataRequest(topics=["theirs", "nothing"]))
    assert reply.cluster_id == "c"
    theirs, nothing = reply.topics
    assert str(theirs.error).replace("theirs", "?") == str(nothing.error).replace("nothing", "?")
    assert not served.asked[0][0].topics


def test_commits_of_other_topics_fail_by_themselves(policy: Policy) -> None:
    request = co.CommitOffsetsRequest(
        member=co.GroupMember(group_id="g"),
        offsets=[co.OffsetEntry(topic_id=MINE, offset=1), co.OffsetEntry(topic_id=THEIRS, partition=4, offset=2)],
    )
    served = Served(methods.COMMIT_OFFSETS)
    reply = served.call(policy, request)
    assert [(e.partition.topic_id, e.partition.partition, e.error.code) for e in reply.errors] == [(THEIRS, 4, 3)]
    assert [item.topic_id for item in served.asked[0][0].offsets] == [MINE]
    request.member.group_id = "other"
    with pytest.raises(errors.GroupAuthorizationError):
        served.call(policy, request)


def test_configs_of_a_topic_that_is_not_ones_own(policy: Policy) -> None:
    served = Served(
        methods.DESCRIBE_TOPIC_CONFIGS, pb.DescribeTopicConfigsReply(topics=[pb.TopicConfigs(topic="mine")])
    )
    reply = served.call(policy, pb.DescribeTopicConfigsRequest(topics=["seen", "mine"]))
    assert [(item.topic, item.error.code) for item in reply.topics] == [("seen", 29), ("mine", 0)]


def test_lists_leave_out_what_is_not_ones_own(policy: Policy) -> None:
    groups = co.ListGroupsReply(groups=[co.GroupListing(group_id="g"), co.GroupListing(group_id="other")])
    reply = Served(methods.LIST_GROUPS, groups).call(policy, co.ListGroupsRequest())
    assert [group.group_id for group in reply.groups] == ["g"]
    infos = co.ListTransactionsReply(
        transactions=[
            co.TransactionInfo(
                transactional_id="t",
                partitions=[{"topic_id": MINE}, {"topic_id": THEIRS}],
                groups=["other", "g"],
                tokens=[co.CommitToken(app_id="x")],
            ),
            co.TransactionInfo(transactional_id="other"),
        ]
    )
    (info,) = Served(methods.LIST_TRANSACTIONS, infos).call(policy, co.ListTransactionsRequest()).transactions
    assert [item.topic_id for item in info.partitions] == [MINE]
    assert list(info.groups) == ["g"]
    assert not info.tokens


def test_a_producer_id_needs_some_topic_to_write_to_or_a_right_on_the_cluster(policy: Policy) -> None:
    served = Served(methods.INIT_PRODUCER_ID)
    served.call(policy, co.InitProducerIdRequest())
    with pytest.raises(errors.ClusterAuthorizationError):
        served.call(policy, co.InitProducerIdRequest(), who="User:bob")
    policy.replace([rule(Operation.IDEMPOTENT_WRITE, CLUSTER_NAME, ResourceType.CLUSTER, "User:bob")], [], {})
    served.call(policy, co.InitProducerIdRequest(), who="User:bob")
    with pytest.raises(errors.TransactionalIdAuthorizationError):
        served.call(policy, co.InitProducerIdRequest(transactional_id="t"), who="User:bob")


def test_what_was_refused_and_what_an_operator_did_is_recorded(policy: Policy) -> None:
    log = policy.audit
    assert isinstance(log, Log)
    with pytest.raises(errors.TopicAuthorizationError):
        Served(methods.DELETE_TOPIC).call(policy, pb.DeleteTopicRequest(topic="mine"))
    Served(methods.DELETE_TOPIC).call(policy, pb.DeleteTopicRequest(topic="mine"), who="User:root")
    Served(methods.PRODUCE, answers(MINE)).call(policy, produce(MINE), b"x")
    refused, done = log.lines
    assert (refused["principal"], refused["allowed"], refused["resource"]) == ("User:ann", False, "mine")
    assert refused["reason"] == "no rule allows it"
    assert (done["principal"], done["allowed"], done["method"]) == ("User:root", True, "PartitionLeader.DeleteTopic")


def test_an_operator_who_removes_a_member_needs_delete_on_the_group_and_is_recorded(policy: Policy) -> None:
    log = policy.audit
    assert isinstance(log, Log)
    served = Served(methods.GROUP_HEARTBEAT)
    leave = co.GroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
    served.call(policy, leave)
    assert not log.lines, "a member that leaves is no news"
    removal = co.GroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1, by_operator=True)
    with pytest.raises(errors.GroupAuthorizationError, match="may not DELETE"):
        served.call(policy, removal)
    policy.replace([rule(Operation.DELETE, "g", ResourceType.GROUP, "User:bob")], [], {})
    served.call(policy, removal, who="User:bob")
    refused, done = log.lines
    assert (refused["principal"], refused["allowed"], refused["operation"]) == ("User:ann", False, "DELETE")
    assert (done["principal"], done["allowed"], done["resource"]) == ("User:bob", True, "g")
    removal.member_epoch = 0
    with pytest.raises(errors.GroupAuthorizationError, match="may not READ"):
        served.call(policy, removal, who="User:bob")


def test_a_refusal_steers_no_terminal(policy: Policy) -> None:
    with pytest.raises(errors.TopicAuthorizationError) as caught:
        Served(methods.DELETE_TOPIC).call(policy, pb.DeleteTopicRequest(topic="a\x1b[31m\nb"))
    assert str(caught.value).isprintable()


def passed_on(policy: Policy, served: Served, request: Any, is_service: bool) -> Any:
    """A request that names root as the client for whom it is."""
    request.forwarded_for.listener = "client"
    request.forwarded_for.principal = "User:ann" if is_service else "User:root"

    async def run() -> Any:
        ann = policy.access("User:ann", "10.0.0.1")
        service = CallInfo("broker", access_of=policy.access)
        CALL.set(service if is_service else CallInfo("ipv4:10.0.0.1:1", listener="client", access=ann))
        header, _ = await served.handler(request.SerializeToString(), b"xy")
        return served.spec.reply.FromString(header)

    return asyncio.run(run())


@pytest.mark.parametrize("is_service", [True, False])
def test_what_is_passed_on_is_asked_of_the_client_and_a_client_speaks_for_itself(
    policy: Policy, is_service: bool
) -> None:
    """Ann's batch of a topic that she may not write: a broker passes it on, or she herself says that she is root."""
    served = Served(methods.PRODUCE, answers(MINE))
    reply = passed_on(policy, served, produce(MINE, THEIRS), is_service)
    assert codes(reply.partitions) == [0, errors.UnknownTopicError.code]
    ((request, payload),) = served.asked
    assert ([item.topic_id for item in request.partitions], payload) == ([MINE], b"x")
