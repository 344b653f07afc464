"""Altering topics is the controller's, options are told with their source, partitions are described by their leaders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import Buffer, PartitionId
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log.topic_config import OPTIONS, TopicConfig
from oncelog_partition_leader.rpc.admin_service import AdminService, options_of
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, OFFSETS_TOPIC, RESTORED_KEY, shard_writer_id
from oncelog_runtime.serving.call_context import CALL, CallInfo
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster.topics.making import Making
from tests.unit.partition_leader.cluster_place import P0, P1, Place
from tests.unit.partition_leader.log_helpers import open_log, plain, write
from tests.unit.partition_leader.rpc.admin_hands import controller, named, once


class Serving:
    """Broker 0, which leads P0 of a topic; other brokers have seen everything."""

    def __init__(self, place: Place, log: Any) -> None:
        self.place = place
        self.failed: list[errors.OncelogError] = []
        config = BrokerConfig(node_id=0)
        making = Making(place)
        self.controller = controller(place, topics=making.topics, log_survey=making.survey)
        leadership = SimpleNamespace(
            topic="t",
            log=log,
            epoch=4,
            high_watermark=2,
            replicas=SimpleNamespace(min_insync_replicas=2, committed=(), followers={}),
            confirm=self._confirm,
        )
        self.confirmed = 0
        self.led: dict[PartitionId, Any] = {
            P0: SimpleNamespace(topic="t", require_leadership=lambda: leadership, fail=self.failed.append)
        }
        replicas: Any = SimpleNamespace(find=self._find, defaults=TopicConfig())
        self.service = AdminService(config, place.view, replicas, self.controller, place.transport, once(), place.clock)
        for broker_id in range(3):
            place.transport.serve(f"broker-{broker_id}:9092", methods.GET_METADATA, self._metadata)
            place.transport.serve(f"broker-{broker_id}:9092", methods.LIST_OFFSETS, self._offsets)

    async def _confirm(self, *, all_electable: bool) -> None:
        assert all_electable, "one that has not heard would show the records again"
        self.confirmed += 1

    def _find(self, partition: PartitionId) -> Any:
        if partition not in self.led:
            raise errors.NotLeaderError()
        return self.led[partition]

    async def _metadata(self, request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        reply = pb.GetMetadataReply(revision=1 << 40)
        for name in request.topics:
            reply.topics.add(name=name, topic_id=self.place.view.topic(name).topic_id)
        return reply, b""

    async def _offsets(self, _request: Any, _payload: Buffer) -> tuple[Any, Buffer]:
        return pb.ListOffsetsReply(), b""

    async def alter(self, topic: str = "t", **more: Any) -> pb.AlterTopicReply:
        request = pb.AlterTopicRequest(topic=topic, **{"timeout_ms": 1_000, **more})
        return (await self.service.alter_topic(request, b""))[0]

    async def configs(self, *topics: str) -> list[pb.TopicConfigs]:
        request = pb.DescribeTopicConfigsRequest(topics=topics)
        return list((await self.service.describe_topic_configs(request, b""))[0].topics)

    async def describe(self, partition: PartitionId, **more: Any) -> pb.DescribedPartition:
        item = pb.DescribePartition(topic_id=partition.topic_id, partition=partition.partition, **more)
        (answer,) = (await self.service.describe_partitions(pb.DescribePartitionsRequest(partitions=[item]), b""))[
            0
        ].partitions
        return answer


def run(scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await place.topic(partitions=2, retention_ms="7")
        await place.lead(P0)
        await place.lead(P1, leader=1)
        log = await open_log(place.node.disk)
        write(log, plain(), plain())
        await scenario(Serving(place, log))

    cluster_place.run(whole)


# ---------------------------------------------------------------- creating


@pytest.mark.parametrize("restored", [False, True])
def test_a_topic_without_all_its_leaders_says_which_brokers_must_come_first(restored: bool) -> None:
    async def scenario(s: Serving) -> None:
        if restored:
            await s.place.put(RESTORED_KEY, b"1")
            s.place.view.restart(await s.place.etcd.list("/oncelog/"))
        await s.place.leave(2)
        request = pb.CreateTopicRequest(topic="__delayed.t", if_not_exists=True, timeout_ms=100)
        with pytest.raises(
            errors.RequestTimedOutError, match="decommission them: 0, 1, 2$" if restored else "leaders yet$"
        ):
            await s.service.create_topic(request, b"")

    run(scenario)


# ---------------------------------------------------------------- altering


def test_options_are_set_and_go_back_to_their_defaults() -> None:
    async def scenario(serving: Serving) -> None:
        option = pb.ConfigEntry(name="flush_mode", value="fsync")
        reply = await serving.alter(set=[option], unset=["retention_ms"])
        assert reply.changed
        assert [(entry.name, entry.value) for entry in reply.config] == [("flush_mode", "fsync")]
        assert not (await serving.alter(set=[option])).changed
        assert serving.place.view.topic("t").config == {"flush_mode": "fsync"}

    run(scenario)


def test_a_look_changes_nothing_and_waits_for_nobody() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.place.lead(P1, leader=None)
        reply = await serving.alter(partitions=5, validate_only=True)
        assert (reply.partitions, reply.changed) == (5, True)
        assert serving.place.view.topic("t").partitions == 2

    run(scenario)


def test_partitions_without_a_leader_in_time_are_told_as_such() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.place.lead(P1, leader=None)
        with pytest.raises(errors.RequestTimedOutError, match="altered"):
            await serving.alter(partitions=3)
        assert serving.place.view.topic("t").partitions == 3

    run(scenario)


def test_an_option_that_is_given_twice_is_refused() -> None:
    entries = [pb.ConfigEntry(name="a", value="1"), pb.ConfigEntry(name="b", value="2")]
    assert options_of(entries) == {"a": "1", "b": "2"}
    with pytest.raises(errors.InvalidRequestError, match="twice"):
        options_of([*entries, pb.ConfigEntry(name="a", value="1")])


def test_only_the_controller_alters_and_a_copy_of_a_call_does_not() -> None:
    async def scenario(serving: Serving) -> None:
        def retention(value: str) -> list[pb.ConfigEntry]:
            return [pb.ConfigEntry(name="retention_ms", value=value)]

        await serving.alter(set=retention("8"), call=named("a"))
        await serving.alter(set=retention("9"))
        await serving.alter(set=retention("8"), call=named("a"))
        assert serving.place.view.topic("t").config == {"retention_ms": "9"}
        serving.controller.is_controller = False
        with pytest.raises(errors.NotControllerError):
            await serving.alter(set=retention("8"))

    run(scenario)


def test_clients_do_not_alter_the_clusters_own_topics() -> None:
    async def scenario(serving: Serving) -> None:
        CALL.set(CallInfo("ipv4:10.0.0.7:4", listener="client"))
        with pytest.raises(errors.TopicAuthorizationError):
            await serving.alter(OFFSETS_TOPIC)

    run(scenario)


# ---------------------------------------------------------------- looking


def test_every_option_is_told_with_its_value_its_default_and_what_is_legal() -> None:
    async def scenario(serving: Serving) -> None:
        (answer,) = await serving.configs("t")
        found = {option.name: option for option in answer.config}
        assert sorted(found) == sorted(OPTIONS)
        retention, flush = found["retention_ms"], found["flush_mode"]
        assert (retention.value, retention.explicit, retention.default_value) == ("7", True, str(7 * 86_400_000))
        assert (flush.value, flush.explicit) == ("replicated", False)
        assert flush.legal == "replicated or fsync"

    run(scenario)


def test_an_unknown_topic_carries_its_error_beside_the_others() -> None:
    async def scenario(serving: Serving) -> None:
        unknown, known = await serving.configs("unknown", "t")
        assert isinstance(from_detail(unknown.error), errors.UnknownTopicError)
        assert known.config

    run(scenario)


def test_a_led_partition_is_described_and_counted_when_that_is_asked() -> None:
    async def scenario(serving: Serving) -> None:
        answer = await serving.describe(P0)
        assert (answer.leader_epoch, answer.log_end_offset, answer.records) == (4, 2, 0)
        answer = await serving.describe(P0, count_from=1)
        assert (answer.records, answer.counted_to) == (1, 2)

    run(scenario)


def test_a_partition_that_is_led_elsewhere_carries_its_error() -> None:
    async def scenario(serving: Serving) -> None:
        assert isinstance(from_detail((await serving.describe(P1)).error), errors.NotLeaderError)

    run(scenario)


def test_rot_that_a_count_meets_fails_the_log() -> None:
    async def scenario(serving: Serving) -> None:
        log = serving.led[P0].require_leadership().log
        await log.close()
        again = await open_log(serving.place.node.disk)
        serving.led[P0].require_leadership().log = again
        serving.place.node.disk.flip_bit(f"{again.directory}/{0:020d}.log", 150, 1)
        answer = await serving.describe(P0, count_from=0)
        assert isinstance(from_detail(answer.error), errors.StorageError)
        assert len(serving.failed) == 1

    run(scenario)


def test_a_topic_is_created_and_deleted_by_the_controller_only() -> None:
    async def scenario(serving: Serving) -> None:
        serving.controller.is_controller = False
        with pytest.raises(errors.NotControllerError):
            await serving.service.create_topic(pb.CreateTopicRequest(topic="new"), b"")
        with pytest.raises(errors.NotControllerError):
            await serving.service.delete_topic(pb.DeleteTopicRequest(topic="t"), b"")
        serving.controller.is_controller = True
        twice = [pb.ConfigEntry(name="retention_ms", value="1"), pb.ConfigEntry(name="retention_ms", value="2")]
        with pytest.raises(errors.InvalidRequestError, match="twice"):
            await serving.service.create_topic(pb.CreateTopicRequest(topic="new", config=twice), b"")
        with pytest.raises(errors.UnknownTopicError):
            await serving.service.delete_topic(pb.DeleteTopicRequest(topic="nowhere"), b"")

    run(scenario)


def test_records_are_deleted_below_the_high_watermark_as_first_asked() -> None:
    async def scenario(serving: Serving) -> None:
        partition = serving.led[P0]
        leadership = partition.require_leadership()
        partition.id, deleted = P0, []

        async def delete_before(offset: int) -> int:
            deleted.append(offset)
            return offset

        partition.delete_before = delete_before

        async def delete(before: int) -> int:
            request = pb.DeleteRecordsRequest(topic_id=P0.topic_id, partition=0, before_offset=before)
            return (await serving.service.delete_records(request, b""))[0].log_start_offset

        assert await delete(1) == 1
        assert serving.confirmed == 1, "the replicas that may lead next have heard of it"
        with pytest.raises(errors.OffsetOutOfRangeError):
            await delete(3)
        assert await delete(-1) == 2
        leadership.high_watermark = 5
        assert await delete(-1) == 2, "a copy of the call deletes no more than the call"
        partition.topic = leadership.topic = OFFSETS_TOPIC
        with pytest.raises(errors.InvalidTopicError):
            await delete(1)
        assert deleted == [1, 2, 2]

    run(scenario)


def test_the_owner_of_a_shard_alone_shortens_its_log() -> None:
    async def scenario(serving: Serving) -> None:
        partition = serving.led[P0]
        partition.id, partition.topic, deleted = P0, OFFSETS_TOPIC, []
        leadership, writer_id = partition.require_leadership(), shard_writer_id(KIND_GROUP, 0)
        epochs = {writer_id: SimpleNamespace(producer_epoch=7), 5: SimpleNamespace(producer_epoch=7)}
        leadership.topic = OFFSETS_TOPIC
        leadership.log = SimpleNamespace(producers=SimpleNamespace(producer=epochs.get))

        async def delete_before(offset: int) -> int:
            deleted.append(offset)
            return offset

        partition.delete_before = delete_before

        async def delete(writer_id: int, epoch: int) -> None:
            request = pb.DeleteRecordsRequest(
                topic_id=P0.topic_id, partition=0, before_offset=1, writer_id=writer_id, writer_epoch=epoch
            )
            await serving.service.delete_records(request, b"")

        for other in (0, 5, shard_writer_id(KIND_GROUP, 1)):
            with pytest.raises(errors.InvalidTopicError):
                await delete(other, 7)
        for epoch in (6, 8):
            with pytest.raises(errors.InvalidProducerEpochError):
                await delete(writer_id, epoch)
        assert not deleted
        await delete(writer_id, 7)
        assert deleted == [1]

    run(scenario)
