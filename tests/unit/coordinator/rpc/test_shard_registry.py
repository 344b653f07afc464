"""A request finds the shard of its name here, or hears who owns it; what does not serve is left out of lists."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import errors
from oncelog.core.batch.hashing import shard_for
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_runtime.metadata.cluster_keys import KIND_GROUP, KIND_TXN
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.serving.signpost import Signpost
from tests.unit.coordinator.fake_cluster import PARTITIONS, USER_TOPIC_ID
from tests.unit.coordinator.serving import COORDINATOR, Serving, serve


def test_an_id_belongs_to_the_shard_of_its_hash() -> None:
    async def scenario(here: Serving) -> None:
        for name in ("t", "another", "a third"):
            number = shard_for(name, PARTITIONS)
            assert here.shards.transaction_shard_number(name) == number
            assert here.shards.transaction_shard(name) is here.owned[KIND_TXN, number]
            assert here.shards.group_shard(name) is here.owned[KIND_GROUP, number]
        assert here.shards.topic_names[USER_TOPIC_ID] == "user"

    serve(scenario)


def test_before_the_cluster_is_set_up_nobody_is_sent_anywhere() -> None:
    view = ClusterView()
    shards = NodeShards(view, {}, "", Signpost(view, client_listener=False))
    for ask in (shards.transaction_shard, shards.transaction_shard_number, shards.group_shard):
        with pytest.raises(errors.CoordinatorNotAvailableError) as refusal:
            ask("t")
        assert refusal.value.retriable


def test_who_asks_for_a_shard_of_another_process_hears_its_address() -> None:
    async def scenario(here: Serving) -> None:
        number = here.shards.transaction_shard_number("t")
        await here.lose(KIND_TXN, number)
        with pytest.raises(errors.NotCoordinatorError) as refusal:
            here.shards.transaction_shard("t")
        assert refusal.value.go_to == ""
        here.cluster.own(KIND_TXN, number)
        with pytest.raises(errors.NotCoordinatorError) as refusal:
            here.shards.transaction_shard("t")
        assert refusal.value.go_to == COORDINATOR

    serve(scenario)


def test_a_batch_that_names_another_shard_than_its_ids_is_refused_with_the_right_one() -> None:
    async def scenario(here: Serving) -> None:
        number = here.shards.transaction_shard_number("t")
        here.shards.require_shard_of("t", number)
        with pytest.raises(errors.InvalidPidMappingError) as refusal:
            here.shards.require_shard_of("t", (number + 1) % PARTITIONS)
        assert refusal.value.context["expected_shard"] == str(number)

    serve(scenario)


def test_shards_are_listed_by_number_whatever_the_order_in_which_they_were_won() -> None:
    async def scenario(here: Serving) -> None:
        await here.lose(KIND_TXN, 0)
        await here.own(KIND_TXN, 0, epoch=2)
        assert [shard.number for shard in here.shards.all_owned(KIND_TXN)] == [0, 1, 2]
        assert all(shard.kind == KIND_GROUP for shard in here.shards.all_owned(KIND_GROUP))

    serve(scenario)


def test_a_list_names_the_shards_that_answered_and_leaves_out_those_that_do_not_serve() -> None:
    async def scenario(here: Serving) -> None:
        async def answered(numbers: tuple[int, ...]) -> list[tuple[int, int]]:
            asked = here.shards.ask_each(KIND_TXN, numbers, cmd.ListIds())
            return [(shard, epoch) async for shard, epoch, _ in asked]

        assert await answered(()) == [(0, 1), (1, 1), (2, 1)]
        assert await answered((2, 9)) == [(2, 1)]
        here.partitions[KIND_TXN, 1].refuse = True
        with pytest.raises(errors.CoordinatorNotAvailableError):
            await here.owned[KIND_TXN, 1].ask(cmd.InitProducerId("t", 1_000, "", 7))
        assert await answered(()) == [(0, 1), (2, 1)], "shard 1 loads"

    serve(scenario)


def test_a_shard_whose_life_ends_under_way_is_left_out() -> None:
    async def scenario(here: Serving) -> None:
        here.partitions[KIND_TXN, 1].hold = True
        begun = [here.owned[KIND_TXN, 1].life.submit(cmd.InitProducerId("t", 1_000, "", 7))]
        listing = asyncio.ensure_future(_numbers(here))
        await asyncio.sleep(0.01)
        here.partitions[KIND_TXN, 1].refuse = True
        here.partitions[KIND_TXN, 1].release()
        assert await listing == [0, 2]
        await asyncio.gather(*begun, return_exceptions=True)

    serve(scenario)


def test_a_shard_that_takes_nothing_now_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(here: Serving) -> None:
        def full(_command: object) -> None:
            raise errors.ResourceExhaustedError("too many commands wait")

        monkeypatch.setattr(here.owned[KIND_TXN, 1].life, "submit", full)
        assert await _numbers(here) == [0, 2]

    serve(scenario)


async def _numbers(here: Serving) -> list[int]:
    return [shard async for shard, _, _ in here.shards.ask_each(KIND_TXN, (), cmd.ListIds())]


def test_what_a_core_refuses_for_good_is_told() -> None:
    async def scenario(here: Serving) -> None:
        with pytest.raises(errors.OncelogError) as refusal:
            async for _ in here.shards.ask_each(KIND_TXN, (), object()):
                pass
        assert not refusal.value.retriable

    serve(scenario)


def test_a_look_into_a_core_that_loads_is_refused() -> None:
    async def scenario(here: Serving) -> None:
        number = here.shards.transaction_shard_number("t")
        shard = here.owned[KIND_TXN, number]
        assert not here.shards.knows(shard, "t")
        assert here.shards.producer_id_of(shard, "t") is None
        assert not here.shards.is_visible(shard, "t", 1)
        name = await here.begin("t")
        assert here.shards.knows(shard, "t")
        assert here.shards.producer_id_of(shard, "t") == name.txn_producer_id
        await here.lose(KIND_TXN, number)
        with pytest.raises(errors.CoordinatorLoadInProgressError):
            here.shards.knows(shard, "t")

    serve(scenario)


def test_who_waits_for_visible_looks_again_when_the_life_has_ended() -> None:
    async def scenario(here: Serving) -> None:
        number = here.shards.transaction_shard_number("t")
        shard = here.owned[KIND_TXN, number]
        waiting = asyncio.ensure_future(here.shards.wait_visible(shard, "t", 1))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await here.lose(KIND_TXN, number)
        await waiting
        await here.shards.wait_visible(shard, "t", 1)

    serve(scenario)
