"""Every method x every kind of caller, at the clients' door of a whole cluster: allowed, or the named refusal.

`EXPECTED` is written by hand from Kafka's table, not taken from ours: the two have to agree. Refused calls write nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from oncelog import errors
from oncelog.client.admin.admin import AccessRule, RoleBinding
from oncelog.core.batch.batch import encode_batch
from oncelog.core.scram import make_credential
from oncelog.errors import ErrorCode as C
from oncelog.types import PartitionId
from oncelog.v1 import channel_pb2 as ch
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import placement_pb2 as pl
from oncelog.v1 import security_pb2 as se
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.methods import MethodSpec
from oncelog_partition_leader.broker import Broker
from oncelog_runtime.serving.session_tokens import SessionTokens
from tests.simulation.cluster import DOORS, SimCluster

TOPIC, GROUP, TXN = "shop.orders", "shop.billing", "shop.writer"
TENANT, READER, WRITER, OWNER, OPERATOR, ADMIN, ROOT = (
    "tenant",
    "reader",
    "writer",
    "owner",
    "operator",
    "admin",
    "root",
)
NOBODY: Final = "ANONYMOUS"
CALLERS: Final = (NOBODY, TENANT, READER, WRITER, OWNER, OPERATOR, ADMIN, ROOT)
BINDINGS: Final = {
    TENANT: ("owner", "other."),
    READER: ("reader", "shop."),
    WRITER: ("writer", "shop."),
    OWNER: ("owner", "shop."),
    OPERATOR: ("operator", ""),
    ADMIN: ("admin", ""),
}
TOPICS, GROUPS, TXNS, CLUSTER = (
    C.TOPIC_AUTHORIZATION_FAILED,
    C.GROUP_AUTHORIZATION_FAILED,
    C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    C.CLUSTER_AUTHORIZATION_FAILED,
)
HIDDEN = C.UNKNOWN_TOPIC_OR_PARTITION
SEES = {READER, WRITER, OWNER, OPERATOR, ADMIN, ROOT}
"""Who may describe the topic, and so is told that he may not do something to it."""

EXPECTED: Final[dict[str, tuple[set[str], C | None]]] = {
    # method: (who may, what the others are told); HIDDEN becomes TOPICS for those who see the topic
    "PartitionLeader.Produce": ({WRITER, OWNER, ROOT}, HIDDEN),
    "PartitionLeader.Fetch": ({READER, OWNER, ROOT}, HIDDEN),
    "PartitionLeader.ProduceRecords": ({WRITER, OWNER, ROOT}, TOPICS),
    "PartitionLeader.FetchRecords": ({READER, OWNER, ROOT}, TOPICS),
    "PartitionLeader.ListOffsets": (SEES, HIDDEN),
    "PartitionLeader.OffsetForLeaderEpoch": (SEES, HIDDEN),
    "PartitionLeader.GetProducerState": ({WRITER, OWNER, ROOT}, HIDDEN),
    "PartitionLeader.DescribeProducers": ({READER, OWNER, ROOT}, HIDDEN),
    "PartitionLeader.DeleteRecords": ({OWNER, OPERATOR, ADMIN, ROOT}, HIDDEN),
    "PartitionLeader.CancelDelayed": ({WRITER, OWNER, ROOT}, HIDDEN),
    "PartitionLeader.DescribeDelayed": (SEES, HIDDEN),
    "PartitionLeader.GetMetadata": (SEES, TOPICS),
    "PartitionLeader.CreateTopic": ({OWNER, OPERATOR, ADMIN, ROOT}, TOPICS),
    "PartitionLeader.DeleteTopic": ({OWNER, OPERATOR, ADMIN, ROOT}, TOPICS),
    "PartitionLeader.AlterTopic": ({OWNER, OPERATOR, ADMIN, ROOT}, TOPICS),
    "PartitionLeader.DescribeTopicConfigs": (SEES, TOPICS),
    "PartitionLeader.DescribePartitions": (SEES, HIDDEN),
    "PartitionLeader.DrainBroker": ({ADMIN, ROOT}, CLUSTER),
    "PartitionLeader.ReassignPartitions": ({ADMIN, ROOT}, CLUSTER),
    "PartitionLeader.ListReassignments": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "PartitionLeader.TransferLeadership": ({ADMIN, ROOT}, CLUSTER),
    "PartitionLeader.SurveyReplicas": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "PartitionLeader.ElectUnclean": ({ADMIN, ROOT}, CLUSTER),
    "PartitionLeader.DecommissionBrokers": ({ADMIN, ROOT}, CLUSTER),
    "Channels.CreateChannel": ({READER, OWNER, ROOT}, GROUPS),
    "Channels.AlterChannel": ({READER, OWNER, ROOT}, GROUPS),
    "Channels.DeleteChannel": ({OWNER, OPERATOR, ADMIN, ROOT}, GROUPS),
    "Channels.ListChannels": (SEES - {WRITER}, None),
    "Channels.Receive": ({READER, OWNER, ROOT}, GROUPS),
    "Channels.Settle": ({READER, OWNER, ROOT}, GROUPS),
    "Channels.Claim": ({READER, OWNER, ROOT}, GROUPS),
    "Channels.DescribeChannel": (SEES - {WRITER}, GROUPS),
    "Channels.SeekChannel": ({READER, OWNER, ROOT}, GROUPS),
    "Security.CreateAcls": ({ADMIN, ROOT}, CLUSTER),
    "Security.DeleteAcls": ({ADMIN, ROOT}, CLUSTER),
    "Security.ListAcls": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "Security.CheckAcl": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "Security.AlterUser": ({ADMIN, ROOT}, CLUSTER),
    "Security.DeleteUser": ({ADMIN, ROOT}, CLUSTER),
    "Security.ListUsers": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "Security.AlterQuotas": ({ADMIN, ROOT}, CLUSTER),
    "Security.ListQuotas": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "Security.DescribeQuota": ({OPERATOR, ADMIN, ROOT}, CLUSTER),
    "Coordinator.InitProducerId": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.EnrolPartitions": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.EndTransaction": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.GetOutcome": (SEES - {READER}, TXNS),
    "Coordinator.JoinTransaction": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.RenewTransaction": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.CommitTransaction": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.AbortTransaction": ({WRITER, OWNER, ROOT}, TXNS),
    "Coordinator.CommitOffsets": ({READER, OWNER, ROOT}, GROUPS),
    "Coordinator.FetchOffsets": (SEES - {WRITER}, GROUPS),
    "Coordinator.SendOffsets": ({OWNER, ROOT}, None),  # a writer may not read, a reader may not write
    "Coordinator.GroupHeartbeat": ({READER, OWNER, ROOT}, GROUPS),
    "Coordinator.ListTransactions": (SEES - {READER}, None),  # the others see an empty list
    "Coordinator.DescribeTransaction": (SEES - {READER}, TXNS),
    "Coordinator.ForceAbort": ({ADMIN, ROOT}, CLUSTER),
    "Coordinator.ListGroups": (SEES - {WRITER}, None),
    "Coordinator.DescribeGroup": (SEES - {WRITER}, GROUPS),
    "Coordinator.DeleteOffsets": ({OWNER, OPERATOR, ADMIN, ROOT}, GROUPS),
    "Coordinator.DrainCoordinator": ({ADMIN, ROOT}, CLUSTER),
    # what is for the cluster's own services is refused to everybody at this door
    **{
        name: (set(), CLUSTER)
        for name in (
            *("PartitionLeader.Replicate", "PartitionLeader.WriteTxnMarkers", "PartitionLeader.SyncReplica"),
            *("PartitionLeader.ReportBroker", "PartitionLeader.Ping", "PartitionLeader.ReplicaStatus"),
            *("Coordinator.ResolveTransaction", "Coordinator.WriteGroupMarkers"),
            *("Coordinator.OpenChannelPartition", "Coordinator.WriteChannelState", "Coordinator.SendChannelAcks"),
        )
    },
}
AUTHORIZATION: Final = {TOPICS, GROUPS, TXNS, CLUSTER}


class World:
    """A cluster of one broker and one coordinator in which somebody has written, committed and opened a transaction."""

    def __init__(self) -> None:
        self.cluster = SimCluster(
            7,
            brokers=1,
            coordinators=1,
            doors=True,
            super_users=("User:root", "User:health", "User:chief"),
            default_replication_factor=1,
            internal_topic_replication_factor=1,
        )
        self.topic_id = ""
        self.txn_producer_id = -1

    async def prepare(self) -> None:
        await self.cluster.healthy()
        root = await self.cluster.client("root").start()
        created = await root.admin.create_topic(TOPIC, partitions=1)
        self.topic_id = created.topic_id
        bindings = [
            RoleBinding(f"User:{who}", role, prefix or "*", "PREFIXED" if prefix else "LITERAL")
            for who, (role, prefix) in BINDINGS.items()
        ]
        await root.admin.create_acls(bindings=bindings)
        async with root.producer(transactional_id=TXN) as producer:
            transaction = await producer.begin_transaction()
            await transaction.send(TOPIC, value=b"secret")
            await transaction.commit()
        (listed,) = [info for info in await root.admin.list_transactions() if info.transactional_id == TXN]
        self.txn_producer_id = listed.producer_id
        await root.admin.set_group_offsets(GROUP, {(TOPIC, 0): 1})
        await root.close()
        made = await self.ask(ROOT, methods.CREATE_CHANNEL, ch.CreateChannelRequest(topic=TOPIC, channel=GROUP))
        assert made.created

    async def ask(self, who: str, spec: MethodSpec[Any, Any], request: Any, payload: bytes = b"") -> Any:
        """The reply, or the refusal."""
        node = {"Coordinator": "coordinator-0"}.get(spec.service, "broker-0")
        transport = self.cluster.world.client(who)
        try:
            address = f"{node}:{DOORS['client']}"
            return (await spec.call(transport, address, request, 20_000, payload))[0]
        except errors.OncelogError as error:
            return error
        finally:
            await transport.close()

    def tokens(self) -> SessionTokens:
        """What shows that a session is one's own: here rights alone are looked at."""
        ((_, broker),) = self.cluster.brokers()
        return SessionTokens(broker.view, required=True)

    def state(self) -> Any:
        """What a call could have written: keys of etcd that no lease moves, and ends of logs."""
        keys = sorted((item.key, item.mod_revision) for item in self.cluster.world.metadata.snapshot().items)
        ((_, broker),) = self.cluster.brokers()
        assert isinstance(broker, Broker)
        ends = {
            place: (p.log.log_start_offset, p.log.log_end_offset)
            for place, p in sorted(broker.replicas.partitions.items())
            if p.log is not None
        }
        return [item for item in keys if "pulse" not in item[0]], ends

    def requests(self) -> Iterator[tuple[MethodSpec[Any, Any], Any, bytes]]:
        """One request per method that is about `TOPIC`, `GROUP`, `TXN` or the cluster. They would be wrong in other ways."""
        t, where = self.topic_id, {"topic_id": self.topic_id, "partition": 0}
        batch = encode_batch([None], [b"x"], timestamps_ms=[1], headers=[[]], topic_id=t, partition=0)
        tokens = self.tokens()
        name = co.TransactionName(transactional_id=TXN, session_token=tokens.of_session(TXN, 0, 0))
        own = {"topic": TOPIC, **where}
        token = co.CommitToken(app_id="shop.app", batch_id=1)
        rule = se.Acl(principal="User:x", resource_type="TOPIC", resource_name="x", operation="READ")
        channel = {"topic": TOPIC, "channel": GROUP}
        work = {"topic_id": t, "channel": GROUP, "channel_id": "0" * 32}
        fetch = [pb.FetchPartition(topic_id=t, fetch_offset=0, leader_epoch=-1)]
        requests: dict[MethodSpec[Any, Any], Any] = {
            methods.PRODUCE: pb.ProduceRequest(acks=-1, partitions=[pb.ProducePartition(**where, length=len(batch))]),
            methods.FETCH: pb.FetchRequest(isolation_level=1, partitions=fetch, max_bytes=1 << 20),
            methods.PRODUCE_RECORDS: pb.ProduceRecordsRequest(topic=TOPIC, records=[types_pb2.Record(value=b"x")]),
            methods.FETCH_RECORDS: pb.FetchRecordsRequest(topic=TOPIC, isolation_level=1),
            methods.LIST_OFFSETS: pb.ListOffsetsRequest(isolation_level=1, partitions=[where]),
            methods.OFFSET_FOR_LEADER_EPOCH: pb.OffsetForLeaderEpochRequest(**where),
            methods.GET_PRODUCER_STATE: pb.GetProducerStateRequest(
                **where, producer_id=1, settle=True, session_token=tokens.of_producer(1)
            ),
            methods.DESCRIBE_PRODUCERS: pb.DescribeProducersRequest(**where),
            methods.DELETE_RECORDS: pb.DeleteRecordsRequest(**where, before_offset=99),
            methods.CANCEL_DELAYED: pb.CancelDelayedRequest(**where, offset=0),
            methods.DESCRIBE_DELAYED: pb.DescribeDelayedRequest(
                topic_id=where["topic_id"], partitions=[where["partition"]]
            ),
            methods.GET_METADATA: pb.GetMetadataRequest(topics=[TOPIC]),
            methods.CREATE_TOPIC: pb.CreateTopicRequest(topic=TOPIC, partitions=1),
            methods.DELETE_TOPIC: pb.DeleteTopicRequest(topic=TOPIC, topic_id="0" * 32),
            methods.ALTER_TOPIC: pb.AlterTopicRequest(topic=TOPIC, unset=["retention_ms"], validate_only=True),
            methods.DESCRIBE_TOPIC_CONFIGS: pb.DescribeTopicConfigsRequest(topics=[TOPIC]),
            methods.DESCRIBE_PARTITIONS: pb.DescribePartitionsRequest(partitions=[where]),
            methods.DRAIN_BROKER: pb.DrainBrokerRequest(action=types_pb2.DRAIN_ACTION_CANCEL),
            methods.REASSIGN_PARTITIONS: pl.ReassignPartitionsRequest(partitions=[{**where, "replicas": [7]}]),
            methods.LIST_REASSIGNMENTS: pl.ListReassignmentsRequest(),
            methods.TRANSFER_LEADERSHIP: pl.TransferLeadershipRequest(**where, broker_id=7),
            methods.SURVEY_REPLICAS: pl.SurveyReplicasRequest(**where),
            methods.ELECT_UNCLEAN: pl.ElectUncleanRequest(**where, broker_id=7),
            methods.DECOMMISSION_BROKERS: pl.DecommissionBrokersRequest(
                action=pl.DECOMMISSION_ACTION_CANCEL, broker_ids=[7]
            ),
            methods.CREATE_CHANNEL: ch.CreateChannelRequest(**channel, if_not_exists=True),
            methods.ALTER_CHANNEL: ch.AlterChannelRequest(**channel, channel_id="0" * 32),
            methods.DELETE_CHANNEL: ch.DeleteChannelRequest(**channel, channel_id="0" * 32),
            methods.RECEIVE: ch.ReceiveRequest(**work, worker_id="w", partitions=[0]),
            methods.SETTLE: ch.SettleRequest(**work, worker_id="w"),
            methods.CLAIM: ch.ClaimRequest(**work, worker_id="w"),
            methods.DESCRIBE_CHANNEL: ch.DescribeChannelRequest(topic_id=t, channel="shop.nothere", partitions=[0]),
            methods.SEEK_CHANNEL: ch.SeekChannelRequest(**work),
            methods.CREATE_ACLS: se.CreateAclsRequest(acls=[rule]),
            methods.DELETE_ACLS: se.DeleteAclsRequest(acls=[rule]),
            methods.LIST_ACLS: se.ListAclsRequest(),
            methods.CHECK_ACL: se.CheckAclRequest(
                principal="User:x", operation="READ", resource_type="TOPIC", resource_name="x"
            ),
            methods.ALTER_USER: se.AlterUserRequest(user=se.ScramUser(name="x")),
            methods.DELETE_USER: se.DeleteUserRequest(name="x"),
            methods.LIST_USERS: se.ListUsersRequest(),
            methods.ALTER_QUOTAS: se.AlterQuotasRequest(remove=[se.QuotaRemoval(subject="User:x")]),
            methods.LIST_QUOTAS: se.ListQuotasRequest(),
            methods.DESCRIBE_QUOTA: se.DescribeQuotaRequest(subject="User:x"),
            methods.INIT_PRODUCER_ID: co.InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=-1),
            methods.ENROL_PARTITIONS: co.EnrolPartitionsRequest(name=name, partitions=[own]),
            methods.END_TRANSACTION: co.EndTransactionRequest(name=name, outcome=types_pb2.TRANSACTION_OUTCOME_ABORTED),
            methods.GET_OUTCOME: co.GetOutcomeRequest(transactional_id=TXN, txn_no=1),
            methods.JOIN_TRANSACTION: co.JoinTransactionRequest(transactional_id=TXN, token=token),
            methods.RENEW_TRANSACTION: co.RenewTransactionRequest(name=name),
            methods.COMMIT_TRANSACTION: co.CommitTransactionRequest(transactional_id=TXN, token=token),
            methods.ABORT_TRANSACTION: co.AbortTransactionRequest(
                transactional_id=TXN, token=token, session_token=tokens.of_session(TXN, self.txn_producer_id, 0)
            ),
            methods.COMMIT_OFFSETS: co.CommitOffsetsRequest(
                member=co.GroupMember(group_id=GROUP, member_epoch=-1), offsets=[{**own, "offset": 1}]
            ),
            methods.FETCH_OFFSETS: co.FetchOffsetsRequest(group_id=GROUP),
            methods.SEND_OFFSETS: co.SendOffsetsRequest(
                name=name, member=co.GroupMember(group_id=GROUP, member_epoch=-1), offsets=[{**own, "offset": 1}]
            ),
            methods.GROUP_HEARTBEAT: co.GroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1),
            methods.LIST_TRANSACTIONS: co.ListTransactionsRequest(),
            methods.DESCRIBE_TRANSACTION: co.DescribeTransactionRequest(transactional_id=TXN),
            methods.FORCE_ABORT: co.ForceAbortRequest(transactional_id=TXN, txn_no=77),
            methods.LIST_GROUPS: co.ListGroupsRequest(),
            methods.DESCRIBE_GROUP: co.DescribeGroupRequest(group_id=GROUP),
            methods.DELETE_OFFSETS: co.DeleteOffsetsRequest(group_id=GROUP),
            methods.DRAIN_COORDINATOR: co.DrainCoordinatorRequest(action=types_pb2.DRAIN_ACTION_CANCEL),
        }
        for spec in methods.ALL.values():
            if spec.name in EXPECTED:
                yield spec, requests.get(spec, spec.request()), batch if spec is methods.PRODUCE else b""


def code_of(answer: Any) -> C | None:
    """The refusal that an answer is, or that stands in the place of the one item that was asked about."""
    if isinstance(answer, errors.OncelogError):
        return answer.code
    for field in ("partitions", "topics", "errors"):
        items = getattr(answer, field, ())
        for item in () if isinstance(items, int) else items:
            if hasattr(item, "error") and item.HasField("error"):
                return C(item.error.code)
    return None


def shows_something(answer: Any) -> bool:
    """A list that has our things in it."""
    return any(getattr(answer, field, ()) for field in ("transactions", "groups", "offsets", "channels"))


def test_every_method_stands_in_the_expectation() -> None:
    assert set(methods.ALL) - {"PidAllocator.AllocateProducerIds"} == set(EXPECTED)


LISTS: Final = {"Coordinator.ListTransactions", "Coordinator.ListGroups", "Channels.ListChannels"}


@pytest.mark.parametrize("who", CALLERS)
def test_each_caller_may_just_what_is_written(who: str) -> None:
    world = World()

    async def main() -> list[str]:
        await world.prepare()
        wrong = []
        for spec, request, payload in world.requests():
            allowed, refusal = EXPECTED[spec.name]
            before = world.state()
            answer = await world.ask(who, spec, request, payload)
            code = code_of(answer)
            if who in allowed:
                hidden = isinstance(answer, errors.UnknownTopicError) and "or none that you may see" in answer.message
                fine = code not in AUTHORIZATION and not hidden and (spec.name not in LISTS or shows_something(answer))
            elif spec.name in LISTS:
                fine = code is None and not shows_something(answer)
            else:
                told = TOPICS if refusal is HIDDEN and who in SEES else refusal
                fine = code in AUTHORIZATION if told is None else code is told
                if before != world.state():
                    wrong.append(f"{spec.name}: a refused call wrote something")
            if not fine:
                wrong.append(f"{spec.name}: {who} {'may' if who in allowed else 'may not'}, and got {answer!r}")
        return wrong

    with world.cluster.world as sim:
        assert sim.run(main()) == []


def test_a_tenant_learns_nothing_of_anothers_things() -> None:
    """What is there and what is not read alike, but for the name that was asked for."""
    world = World()

    async def main() -> None:
        await world.prepare()
        unknown = "f" * 32
        for spec, request, payload in world.requests():
            if spec is methods.PRODUCE:
                continue  # a batch names its topic; `tests/unit/runtime/security/test_gate.py` compares these answers
            asked = request.SerializeToString()
            other = asked
            for real, false in (
                (world.topic_id, unknown),
                (TOPIC, "shop.nothin"),
                (GROUP, "shop.nothing"),
                (TXN, "shop.absent"),
            ):
                assert len(real) == len(false)
                other = other.replace(real.encode(), false.encode())
            answers = []
            for data in (asked, other):
                answer = await world.ask(TENANT, spec, spec.request.FromString(data), payload)
                text = f"{type(answer).__name__} {answer}"
                for word in (world.topic_id, unknown, TOPIC, "shop.nothin", GROUP, "shop.nothing", TXN, "shop.absent"):
                    text = text.replace(word, "?")
                answers.append(text.replace("?g", "?"))
            assert answers[0] == answers[1], spec.name
            assert "secret" not in answers[0]

    with world.cluster.world as sim:
        sim.run(main())


def test_rules_change_under_running_clients() -> None:
    """What a rule allows is allowed at once, and what it no longer allows is refused at once, on links that stand."""
    world = World()

    async def main() -> None:
        await world.prepare()
        root = await world.cluster.client("chief").start()
        where = PartitionId(world.topic_id, 0)
        request = pb.FetchRequest(
            isolation_level=1,
            max_bytes=1 << 20,
            partitions=[pb.FetchPartition(topic_id=where.topic_id, leader_epoch=-1)],
        )
        rule = AccessRule("User:late", "READ", "TOPIC", TOPIC)
        assert code_of(await world.ask("late", methods.FETCH, request)) is HIDDEN
        for _ in range(2):
            await root.admin.create_acls([rule])
            assert code_of(await world.ask("late", methods.FETCH, request)) is None
            assert await root.admin.delete_acls([rule]) == 1
            assert code_of(await world.ask("late", methods.FETCH, request)) is HIDDEN
        await root.close()

    with world.cluster.world as sim:
        sim.run(main())


def test_users_are_kept_without_their_passwords() -> None:
    """The keys that prove a password go in and do not come out."""
    world = World()
    made = make_credential("pencil", b"0123456789abcdef", 4096)
    keys = {"salt": made.salt, "iterations": 4096, "stored_key": made.stored_key, "server_key": made.server_key}
    ann = se.ScramUser(name="ann", **keys)

    async def main() -> None:
        await world.prepare()

        async def alter(user: se.ScramUser, **how: bool) -> Any:
            return await world.ask("chief", methods.ALTER_USER, se.AlterUserRequest(user=user, **how))

        assert code_of(await alter(ann, must_exist=True)) is C.INVALID_REQUEST
        assert code_of(await alter(ann, must_not_exist=True)) is None
        assert code_of(await alter(ann, must_not_exist=True)) is C.INVALID_REQUEST
        assert code_of(await alter(ann)) is None
        for wrong in ({"salt": b"x"}, {"iterations": 1}, {"stored_key": b""}, {"name": "a*"}, {"name": ""}):
            assert code_of(await alter(se.ScramUser(**{"name": "ann", **keys, **wrong}))) is C.INVALID_REQUEST
        (user,) = (await world.ask("chief", methods.LIST_USERS, se.ListUsersRequest())).users
        assert (user.name, user.iterations, user.stored_key, user.server_key, user.salt) == ("ann", 4096, b"", b"", b"")
        security = world.cluster.node("coordinator-0").ports.server.security
        assert security.stored.user("ann").credential == made
        assert all("pencil" not in str(item.value) for item in world.cluster.world.metadata.snapshot().items)
        for there in (True, False):
            assert (await world.ask("chief", methods.DELETE_USER, se.DeleteUserRequest(name="ann"))).deleted is there
        chief = await world.cluster.client("chief").start()
        assert (await chief.admin.check_acl("READ", "TOPIC", TOPIC, principal="User:reader")).allowed
        assert not (await chief.admin.check_acl("WRITE", "TOPIC", TOPIC, principal="User:reader")).allowed
        await chief.close()

    with world.cluster.world as sim:
        sim.run(main())
