"""Moving replicas: new ones in sync before old ones leave, whoever is the controller, and nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import placement_pb2 as pl
from oncelog.wire import methods
from oncelog.wire.wire_errors import from_detail
from oncelog_runtime.metadata import cluster_keys as keys
from oncelog_runtime.ports import Listing
from tests.conformance.script import Place, Script, cluster

FOUR = cluster(brokers=4, replica_balance_enabled=False)


def controller(s: Script) -> str:
    item = s.world.metadata.get(keys.CONTROLLER_KEY)
    return f"broker-{keys.decode_ref(item.value).broker_id}" if item is not None else ""


async def ask(s: Script, spec: Any, request: Any) -> Any:
    """One call to the controller, whoever it is."""

    async def once() -> Any:
        node = controller(s)
        if not node:
            raise errors.NotControllerError("there is none")
        return await s.call(node, spec, request)

    return await s.retry(once)


async def reassign(s: Script, place: Place, replicas: Sequence[int]) -> None:
    """Raises the partition's refusal."""
    item = pl.PartitionReplicas(topic_id=place.topic_id, partition=place.partition, replicas=replicas)
    reply = await ask(s, methods.REASSIGN_PARTITIONS, pl.ReassignPartitionsRequest(partitions=[item]))
    for refused in reply.errors:
        raise from_detail(refused.error)


def replicas(s: Script, place: Place) -> tuple[int, ...]:
    return s.state(place).replicas


def outsider(s: Script, place: Place) -> int:
    """The broker of four that has no replica."""
    (broker_id,) = {0, 1, 2, 3} - set(replicas(s, place))
    return broker_id


def moving(s: Script) -> int:
    return len(s.world.metadata.list(keys.REASSIGNMENTS).items)


def here(s: Script, node: str, place: Place) -> bool:
    """The broker has this replica's log."""
    names = s.world.nodes[node].disk.list("logs")
    return any(place.topic_id in name and name.endswith(f"-{place.partition}") for name in names)


async def fast_place(s: Script) -> tuple[Place, Any]:
    place = await s.place()
    writer = await s.producer()
    await s.write(place, writer, "x")
    return place, writer


@FOUR
async def test_a_move_keeps_every_record_and_deletes_the_old_log(s: Script) -> None:
    place, writer = await fast_place(s)
    new, before = outsider(s, place), s.state(place)
    old = before.replicas[0]
    assert s.leader(place) == f"broker-{old}"
    target = (new, *before.replicas[1:])
    await reassign(s, place, target)
    await reassign(s, place, target)  # safe to repeat
    await s.until(lambda: replicas(s, place) == target and moving(s) == 0)
    await s.until(lambda: s.isr(place) == {f"broker-{b}" for b in target})
    assert s.leader(place) == f"broker-{new}", "the preferred leader moves too"
    assert s.state(place).leader_epoch >= before.leader_epoch + 2, "each step is an election"
    await s.until(lambda: not here(s, f"broker-{old}", place), "the old replica's log is removed")
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert await s.read(place) == ["x", "y"]
    for broker_id in target:
        assert here(s, f"broker-{broker_id}", place)


@FOUR
async def test_the_old_replica_stays_until_the_new_one_is_in_the_isr(s: Script) -> None:
    place, writer = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    for follower in old:
        s.hold(methods.REPLICATE, source=f"broker-{follower}", target=f"broker-{new}")
    await reassign(s, place, (new, *old[:2]))
    await s.until(lambda: replicas(s, place) == (*old, new))
    data = s.batch(place, writer, "y", seq=1)
    await s.retry(lambda: s.produce(place, data))
    await s.sleep(10)
    assert replicas(s, place) == (*old, new), "it cannot catch up, so nobody leaves"
    assert s.isr(place) == {f"broker-{b}" for b in old}
    await reassign(s, place, ())
    await s.until(lambda: replicas(s, place) == old and moving(s) == 0, "cancelled: as before")
    await s.until(lambda: not here(s, f"broker-{new}", place))
    assert await s.read(place) == ["x", "y"]


@FOUR
async def test_the_next_controller_goes_on_with_a_move(s: Script) -> None:
    place, _ = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    target = (*old[:2], new)
    taps = [s.hold(methods.REPLICATE, source=f"broker-{b}", target=f"broker-{new}") for b in old]
    await reassign(s, place, target)
    await s.until(lambda: replicas(s, place) == (*old, new))
    first = controller(s)
    s.kill(first)
    for tap in taps:
        tap.close()
    await s.until(lambda: controller(s) not in ("", first), "another one has the role")
    s.restart(first)
    await s.until(lambda: replicas(s, place) == target and moving(s) == 0)
    assert await s.read(place) == ["x"]


@FOUR
async def test_a_deposed_controller_moves_nothing(s: Script) -> None:
    place, _ = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    first = controller(s)
    late = s.delay_etcd_writes(first, keys.partition_key(*place.id))
    await reassign(s, place, (new, *old[1:]))
    await s.until(lambda: late.waiting > 0, "the controller wants to begin")
    s.world.metadata.commit([], [], [keys.CONTROLLER_KEY])  # somebody else wins the role, or it wins it anew
    await s.until(lambda: controller(s) != "")
    late.release()
    await s.until(lambda: bool(late.results))
    assert late.results[0] is False
    await s.until(lambda: replicas(s, place) == (new, *old[1:]) and moving(s) == 0)


@FOUR
async def test_moves_that_make_no_sense_are_refused(s: Script) -> None:
    place, _ = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    for wrong in ((old[0], old[0], new), (*old[:2], 9), (new,)):
        with pytest.raises(errors.InvalidReplicaAssignmentError):
            await reassign(s, place, wrong)
    with pytest.raises(errors.UnknownTopicError):
        await reassign(s, Place("t", "0" * 32, 0), old)
    for follower in old:
        s.hold(methods.REPLICATE, source=f"broker-{follower}", target=f"broker-{new}")
    await reassign(s, place, (new, *old[1:]))
    with pytest.raises(errors.ReassignmentInProgressError):
        await reassign(s, place, (old[0], new, old[1]))


@FOUR
async def test_leadership_goes_to_whom_the_operator_names(s: Script) -> None:
    place, writer = await fast_place(s)
    (second, _), out = s.followers(place), outsider(s, place)
    to = int(second.rpartition("-")[2])
    request = pl.TransferLeadershipRequest(topic_id=place.topic_id, partition=place.partition, broker_id=to)
    await ask(s, methods.TRANSFER_LEADERSHIP, request)
    await ask(s, methods.TRANSFER_LEADERSHIP, request)
    await s.until(lambda: s.leads(second, place))
    assert len(s.isr(place)) == 3
    request.broker_id = out
    with pytest.raises(errors.InvalidRequestError, match="no replica"):  # not retriable: it would never be otherwise
        await ask(s, methods.TRANSFER_LEADERSHIP, request)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert await s.read(place) == ["x", "y"]


async def place_whose_outsider_is_no_controller(s: Script) -> Place:
    """So that the broker to which it moves can be in trouble, and the controller stays."""
    places = await s.topic(partitions=4)
    return next(place for place in places if controller(s) != f"broker-{outsider(s, place)}")


def taken_for_dead(s: Script, broker_id: int) -> bool:
    """The controller remembers some incarnation of it as dead."""
    return any(ref.broker_id == broker_id for ref in s.broker(controller(s)).controller._brokers().dead)


@FOUR
async def test_a_move_goes_on_when_its_silent_target_answers_again(s: Script) -> None:
    """It was registered all the time: no key of etcd changes when it comes back."""
    place = await place_whose_outsider_is_no_controller(s)
    new, old = outsider(s, place), replicas(s, place)
    silence = s.hold(methods.PING, target=f"broker-{new}")
    await s.until(lambda: taken_for_dead(s, new))
    target = (*old[:2], new)
    await reassign(s, place, target)
    await s.sleep(5)
    assert replicas(s, place) == old, "nothing is moved to a silent broker"
    silence.close()
    await s.until(lambda: replicas(s, place) == target and moving(s) == 0)


@FOUR
async def test_a_restarted_target_is_not_taken_for_its_dead_incarnation(s: Script) -> None:
    """The controller forgets a dead incarnation later than etcd: the next one is another, and nothing else changes then."""
    place = await place_whose_outsider_is_no_controller(s)
    new, old = outsider(s, place), replicas(s, place)
    s.kill(f"broker-{new}")
    await s.until(lambda: taken_for_dead(s, new))
    target = (*old[:2], new)
    await reassign(s, place, target)
    s.restart(f"broker-{new}")
    await s.until(lambda: replicas(s, place) == target and moving(s) == 0)


@FOUR
async def test_a_move_goes_on_when_fewer_replicas_need_be_in_sync(s: Script) -> None:
    place = await s.place(min_insync_replicas="3")
    new, old = outsider(s, place), replicas(s, place)
    taps = [s.hold(methods.REPLICATE, source=f"broker-{b}", target=f"broker-{new}") for b in old]
    target = (old[0], old[1], new)
    await reassign(s, place, target)
    await s.until(lambda: replicas(s, place) == (*old, new))
    s.kill(f"broker-{old[1]}")
    for tap in taps:
        tap.close()
    await s.sleep(20)
    assert s.isr(place) == {f"broker-{b}" for b in (old[0], old[2], new)}
    assert replicas(s, place) == (*old, new), "two of the target are in sync, and three are asked for"
    async with s.client() as client:
        await client.admin.alter_topic(place.topic, config={"min.insync.replicas": "2"})
    await s.until(lambda: replicas(s, place) == target and moving(s) == 0)


def followers_of(s: Script, place: Place) -> set[int]:
    """Whom the leader feeds and counts."""
    leadership = s.replica(s.leader(place), place).leadership
    return set(leadership.replicas.followers) if leadership is not None else set()


class FrozenView:
    """What this broker sees of etcd stands still until it is thawed; its own reads still work."""

    def __init__(self, s: Script, node: str) -> None:
        self._view = s.broker(node).view
        self._original = self._view.change, self._view.listed
        self._waiting: list[Any] = []
        self._view.change = self._waiting.append  # type: ignore[method-assign,assignment]
        self._view.listed = self._waiting.append  # type: ignore[method-assign,assignment]

    @property
    def behind(self) -> int:
        """How many events it has not seen."""
        return len(self._waiting)

    def show(self, events: int) -> None:
        """It sees the oldest of these events, and stands still again."""
        change, listed = self._original
        shown, self._waiting[:events] = self._waiting[:events], []
        for event in shown:
            listed(event) if isinstance(event, Listing) else change(event)

    def thaw(self) -> None:
        """It sees everything."""
        self._view.change, self._view.listed = self._original  # type: ignore[method-assign]
        self.show(self.behind)


async def moved_away_and_back(s: Script) -> tuple[Place, str, FrozenView, int]:
    """A replica moves away and back, and its broker sees nothing of it: it takes part all the time.

    Returns the partition with two records, the broker, its view, and after how many events that view has it away.
    """
    place, writer = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    gone = next(f"broker-{broker}" for broker in old[1:] if f"broker-{broker}" != controller(s))
    between = tuple(new if f"broker-{broker}" == gone else broker for broker in old)
    view = FrozenView(s, gone)
    await reassign(s, place, between)
    await s.until(lambda: replicas(s, place) == between and moving(s) == 0)
    await s.sleep(0.1)  # the controller and the frozen view hear of that
    until_away = view.behind
    await reassign(s, place, old)
    await s.until(lambda: replicas(s, place) == old and moving(s) == 0)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert gone in s.isr(place)
    s.hold(methods.REPLICATE, source=s.leader(place), target=gone)  # what it has lost it would not get back
    return place, gone, view, until_away


async def is_the_last_one(s: Script, place: Place, node: str) -> None:
    """All other replicas die, and this one is the whole ISR."""
    s.kill(*(f"broker-{broker}" for broker in replicas(s, place) if f"broker-{broker}" != node))
    await s.until(lambda: s.isr(place) == {node}, "the last one of the ISR")


async def read_when_two_are_back(s: Script, place: Place) -> list[str]:
    """What is there once the preferred replica is in sync again."""
    first = f"broker-{replicas(s, place)[0]}"
    s.restart(first)
    await s.rejoined(first, place)
    return await s.read(place)


@FOUR
async def test_a_view_that_lags_deletes_no_log_that_counts_again(s: Script) -> None:
    """It took part all the time, and must keep its log when it sees that it was away."""
    place, gone, view, _ = await moved_away_and_back(s)
    view.thaw()
    await s.sleep(0.5)
    await is_the_last_one(s, place, gone)
    assert await read_when_two_are_back(s, place) == ["x", "y"]


@cluster(brokers=4, replica_balance_enabled=False, trash_retention_ms=200, retention_interval_ms=200)
async def test_a_view_that_lags_for_longer_than_the_trash_keeps_a_log_deletes_none(s: Script) -> None:
    """It sees that it was away, and for a while not that it is back: what went to the trash is gone by then."""
    place, gone, view, until_away = await moved_away_and_back(s)
    view.show(until_away)
    await s.sleep(1)
    await is_the_last_one(s, place, gone)
    view.thaw()
    assert await read_when_two_are_back(s, place) == ["x", "y"]


@FOUR
async def test_a_leader_of_an_older_set_counts_nobody_back_in(s: Script) -> None:
    """The leader stays, and two of the replicas are others: it feeds and counts the new set, and nobody else."""
    place, writer = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    await reassign(s, place, (old[0], old[1], new))
    await s.until(lambda: replicas(s, place) == (old[0], old[1], new) and moving(s) == 0)
    await s.until(lambda: followers_of(s, place) == {old[1], new})
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    s.kill(f"broker-{old[0]}", f"broker-{old[1]}")
    await s.until(lambda: s.leads(f"broker-{new}", place), "the new replica leads")
    s.restart(f"broker-{old[0]}")
    await s.rejoined(f"broker-{old[0]}", place)
    assert await s.read(place) == ["x", "y"]


@FOUR
async def test_a_replica_that_moved_away_while_its_broker_was_down_is_removed(s: Script) -> None:
    place, _ = await fast_place(s)
    new, old = outsider(s, place), replicas(s, place)
    gone = f"broker-{old[2]}"
    s.kill(gone)
    await s.until(lambda: gone not in s.isr(place))
    await reassign(s, place, (*old[:2], new))
    await s.until(lambda: replicas(s, place) == (*old[:2], new) and moving(s) == 0)
    assert here(s, gone, place)
    s.restart(gone)
    await s.until(lambda: not here(s, gone, place), "its log is removed when it is back")
    assert await s.read(place) == ["x"]


def load(s: Script, broker_id: int) -> int:
    """Replicas that etcd gives to a broker."""
    states = [keys.Partition.decode(item.value) for item in s.world.metadata.list(keys.PARTITIONS).items]
    return sum(broker_id in state.replicas for state in states)


async def decommission(
    s: Script, *broker_ids: int, action: Any = pl.DECOMMISSION_ACTION_START
) -> dict[int, pl.BrokerLoad]:
    request = pl.DecommissionBrokersRequest(action=action, broker_ids=broker_ids)
    reply = await ask(s, methods.DECOMMISSION_BROKERS, request)
    return {item.broker_id: item for item in reply.brokers}


@FOUR
async def test_a_decommissioned_broker_is_emptied_and_gets_nothing_new(s: Script) -> None:
    place, writer = await fast_place(s)
    leaving = replicas(s, place)[0]
    await decommission(s, leaving)
    await decommission(s, leaving)
    await s.until(lambda: load(s, leaving) == 0 and moving(s) == 0, within_s=120)
    status = (await decommission(s, action=pl.DECOMMISSION_ACTION_STATUS))[leaving]
    assert (status.decommissioned, status.replicas, status.leaderships, status.moving) == (True, 0, 0, 0)
    await s.place("later")
    assert load(s, leaving) == 0
    with pytest.raises(errors.InvalidReplicaAssignmentError):
        await decommission(s, (leaving + 1) % 4)  # two brokers cannot hold three replicas
    s.cluster.ask_to_stop(f"broker-{leaving}")
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert await s.read(place) == ["x", "y"]


@cluster(brokers=4, replica_balance_delay_ms=2_000)
async def test_brokers_share_alike_after_the_set_stood_still(s: Script) -> None:
    place, writer = await fast_place(s)
    leaving = outsider(s, place)
    await decommission(s, leaving)
    await s.until(lambda: load(s, leaving) == 0 and moving(s) == 0, within_s=120)
    await decommission(s, leaving, action=pl.DECOMMISSION_ACTION_CANCEL)

    def level() -> bool:
        loads = [load(s, broker_id) for broker_id in range(4)]
        return max(loads) - min(loads) <= 1 and moving(s) == 0

    await s.until(level, "the broker that is in use again gets its share", within_s=120)
    await s.retry(lambda: s.write(place, writer, "y", seq=1))
    assert await s.read(place) == ["x", "y"]


@cluster(brokers=4, replica_balance_enabled=False, move_bytes_per_s=20_000)
async def test_a_bounded_move_takes_its_time_and_holds_up_no_writer(s: Script) -> None:
    place, writer = await fast_place(s)
    async with s.client() as client, client.producer(compression_type="none") as producer:
        for _ in range(20):
            await (
                await producer.send(
                    place.topic, value=s.world.random("filling").randbytes(5_000).hex().encode(), partition=0
                )
            )
        new, before = outsider(s, place), replicas(s, place)
        began_ms = s.now_ms
        await reassign(s, place, (*before[:2], new))
        await s.until(lambda: replicas(s, place) == (*before, new))
        await s.sleep(1)
        (move,) = await client.admin.list_reassignments()
        topic = await client.admin.describe_topic(place.topic)
        log = (await client.admin.describe_partitions([topic]))[place.id]
        left = log.missing(set(move.target) - set(move.original))
        assert 0 < left < 22, "what the new replica lacks can be seen"
        wrote_ms = s.now_ms
        await s.retry(lambda: s.write(place, writer, "y", seq=1))
        assert s.now_ms - wrote_ms < 500, "the ISR is sent everything at once"
        await s.until(lambda: replicas(s, place) == (*before[:2], new) and moving(s) == 0)
        assert 8_000 < s.now_ms - began_ms < 20_000, "200 kB at 20 kB/s, a second's worth of it at once"
    assert len(await s.read(place)) == 22
