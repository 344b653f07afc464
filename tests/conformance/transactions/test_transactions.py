"""Cases C of the conformance list: enrolment, decisions, time-outs, take-overs."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_partition_leader.core.producers.transactions import TxnSession
from tests.conformance.script import ABORTED, COMMITTED, ONGOING, Script, cluster


async def log_end(s: Script, tid: str) -> int:
    """How much is in the log of an id's shard."""
    return await s.latest(s.shard_log(tid), committed=False)


async def test_an_unknown_id_or_another_producer_id_is_a_wrong_mapping(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    for wrong in (writer.of(transactional_id="t2"), writer.of(txn_producer_id=writer.producer_id + 1)):
        with pytest.raises(errors.InvalidPidMappingError):
            await s.enrol(wrong, place)


async def test_another_epoch_is_fenced(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.enrol(writer, place)
    for epoch in (writer.epoch - 1, writer.epoch + 1):
        with pytest.raises(errors.ProducerFencedError):
            await s.enrol(writer.of(epoch=epoch), place)
        with pytest.raises(errors.ProducerFencedError):
            await s.end(writer.of(epoch=epoch))
    assert await s.outcome(writer) == ONGOING


async def test_a_decided_transaction_takes_no_partitions(s: Script) -> None:
    first, second = await s.topic("work", 2)
    writer = await s.session("t")
    await s.enrol(writer, first)
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    await s.end(writer)
    with pytest.raises(errors.TxnEndedError):
        await s.enrol(writer, second)
    markers.release()


async def test_the_same_partitions_again_write_nothing(s: Script) -> None:
    first, second = await s.topic("work", 2)
    writer = await s.session("t")
    await s.enrol(writer, first, second)
    before = await log_end(s, "t")
    await s.enrol(writer, second)
    await s.enrol(writer, first, second)
    assert await log_end(s, "t") == before


async def test_the_next_transaction_opens_with_its_first_partition(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=5_000)
    await s.enrol(writer, place)
    await s.end(writer, visible=True)
    await s.sleep(4)
    following = writer.next()
    await s.enrol(following, place)
    await s.sleep(4)  # its time begins with it
    assert await s.outcome(following) == ONGOING


@pytest.mark.parametrize("commit", [True, False])
async def test_the_answer_comes_with_the_decision_and_before_the_markers(s: Script, commit: bool) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    reply = await s.end(writer, commit, counts={place: 1} if commit else None)
    assert (reply.outcome, reply.visible) == (COMMITTED if commit else ABORTED, False)
    await markers.caught()
    assert await s.latest(place) == 0, "nothing is visible yet"
    markers.release()
    await s.stable(place)
    assert await s.read(place) == (["x"] if commit else [])


@pytest.mark.parametrize("commit", [True, False])
async def test_a_repeated_end_gets_the_first_outcome(s: Script, commit: bool) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    await s.end(writer, commit, visible=True)
    before = await log_end(s, "t")
    assert (await s.end(writer, commit)).outcome == (COMMITTED if commit else ABORTED)
    with pytest.raises(errors.InvalidTxnStateError if commit else errors.TxnAbortedError):
        await s.end(writer, not commit)
    assert await s.outcome(writer) == (COMMITTED if commit else ABORTED)
    assert await log_end(s, "t") <= before + 2, "nothing was decided again"


async def test_a_time_out_aborts_and_the_late_commit_hears_so(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=1_000)
    await s.write(place, writer, "x")
    await s.sleep(1.5)
    with pytest.raises(errors.TxnAbortedError) as caught:
        await s.end(writer, counts={place: 1})
    assert isinstance(caught.value, errors.AbortableTransactionError), "definite, and never fatal"
    following = writer.next()
    await s.write(place, following, "y")
    await s.end(following, counts={place: 1}, visible=True)
    assert await s.read(place) == ["y"]


async def test_a_decision_on_its_way_is_left_alone_by_the_time_out(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=1_000)
    await s.write(place, writer, "x")
    held = s.hold(methods.PRODUCE, source=s.owner("t"))
    deciding = s.start(s.end(writer, counts={place: 1}))
    await held.caught()
    await s.sleep(1.2)
    held.release()
    assert (await deciding).outcome == COMMITTED
    await s.stable(place)
    assert await s.read(place) == ["x"]


async def test_a_time_out_whose_append_fails_changes_nothing_but_the_outcome(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=1_000)
    await s.write(place, writer, "x")
    lost = s.lose_answers(methods.PRODUCE, source=s.owner("t"))
    await s.sleep(3)
    lost.close()
    assert await s.outcome(writer) == ABORTED
    following = writer.next()  # the same session: a time-out raises no epoch
    await s.write(place, following, "y")
    await s.end(following, counts={place: 1}, visible=True)
    assert await s.read(place) == ["y"]


async def test_a_clock_that_steps_back_disturbs_nothing(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=3_000)
    clock = s.world.nodes[s.owner("t")].clock
    for number in range(4):
        clock.step(-60_000)
        await s.write(place, writer, str(number))
        clock.step(-60_000)
        await s.end(writer, counts={place: 1}, visible=True)
        writer = writer.next()
    await s.write(place, writer, "late")
    await s.sleep(4)
    assert await s.outcome(writer) == ABORTED, "time-outs go on too"
    assert await s.read(place) == ["0", "1", "2", "3"]


async def test_a_decision_is_driven_on_by_the_next_owner_in_its_own_epoch(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    old = s.owner("t")
    markers = s.hold(methods.WRITE_TXN_MARKERS, source=old)
    await s.end(writer, counts={place: 1})
    lost = (await markers.caught()).request
    sent = s.watch(methods.WRITE_TXN_MARKERS)
    s.kill(old)
    again = (await sent.caught()).request
    assert again.coordinator_epoch > lost.coordinator_epoch
    await s.stable(place)
    assert await s.read(place) == ["x"]


async def test_while_it_loads_a_shard_describes_nothing(s: Script) -> None:
    await s.session("t")
    old = s.owner("t")
    heir = next(name for name in ("coordinator-0", "coordinator-1") if name != old)
    held = s.hold(methods.PRODUCE, source=heir)
    s.kill(old)
    await s.until(lambda: s.runs_shard(heir, "t"))
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        await s.call(heir, methods.DESCRIBE_TRANSACTION, co.DescribeTransactionRequest(transactional_id="t"))
    held.release()
    request = co.DescribeTransactionRequest(transactional_id="t")
    assert (await s.ask("t", methods.DESCRIBE_TRANSACTION, request)).transaction.transactional_id == "t"


async def test_without_enough_replicas_the_coordinator_is_not_available(s: Script) -> None:
    log = s.shard_log("t")
    kept = s.leader(log)
    s.kill(*s.followers(log))
    with pytest.raises(errors.RetriableError):
        await s.call(s.owner("t"), methods.INIT_PRODUCER_ID, _init("t"), timeout_ms=3_000)
    s.restart(*(f"broker-{i}" for i in range(3) if f"broker-{i}" != kept))
    await s.cluster.healthy()
    assert (await s.session("t")).epoch in (0, 1), "whatever became of the first try, it decides nothing twice"


def _init(tid: str) -> co.InitProducerIdRequest:
    return co.InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=1_000, nonce="n")


@cluster(coordinator={"transactional_id_expiration_ms": 2_000})
async def test_an_expired_id_begins_again_with_the_next_number(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    await s.end(writer, counts={place: 1}, visible=True)
    waiting = await s.session("open", timeout_ms=60_000)
    await s.enrol(waiting, place)
    await s.sleep(5)
    with pytest.raises(errors.InvalidPidMappingError):
        await s.write(place, writer.next(), "too late")
    again = await s.session("t")
    assert again.producer_id == writer.producer_id
    assert again.txn_no == writer.txn_no + 2, "the number between was the expired session's"
    assert again.epoch > writer.epoch
    await s.write(place, again, "y")
    await s.end(again, counts={place: 1}, visible=True)
    assert await s.outcome(waiting) == ONGOING, "what is open does not expire"
    await s.end(waiting, commit=False, visible=True)
    assert await s.read(place) == ["x", "y"]


async def test_the_first_write_enrols_or_leaves_no_trace(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    with pytest.raises(errors.ProducerFencedError):
        await s.write(place, writer.of(epoch=writer.epoch + 1), "x")
    assert await s.latest(place, committed=False) == 0
    await s.write(place, writer, "x")
    request = co.DescribeTransactionRequest(transactional_id="t")
    info = (await s.ask("t", methods.DESCRIBE_TRANSACTION, request)).transaction
    assert [(p.topic_id, p.partition) for p in info.partitions] == [place.id]


async def test_an_unavailable_coordinator_is_a_retriable_error_for_the_producer(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    s.kill("coordinator-0", "coordinator-1")
    with pytest.raises(errors.RetriableError):
        await s.write(place, writer, "x", timeout_ms=8_000)
    assert await s.latest(place, committed=False) == 0
    s.restart("coordinator-0", "coordinator-1")
    await s.cluster.healthy()
    assert await s.retry(lambda: s.write(place, writer, "x")) == 0


async def test_a_yes_that_crosses_an_abort_opens_nothing(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    yes = s.delay_answers(methods.ENROL_PARTITIONS)
    writing = s.start(s.write(place, writer, "x", timeout_ms=20_000))
    await yes.caught()
    await s.end(writer, commit=False, visible=True)
    yes.release()
    with pytest.raises(errors.TxnEndedError):
        await writing
    assert await s.latest(place) == await s.latest(place, committed=False)


async def test_a_yes_for_a_deposed_leader_writes_nothing_that_counts(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    held = s.hold(methods.ENROL_PARTITIONS)
    writing = s.start(s.write(place, writer, "x", timeout_ms=20_000))
    await held.caught()
    old = s.leader(place)
    s.cut(old, *s.followers(place))
    s.cut_from_etcd(old)
    await s.new_leader(place, old)
    held.release()
    with pytest.raises(errors.RetriableError):
        await writing
    s.heal()
    s.heal_etcd(old)
    await s.end(writer, visible=True)
    assert await s.read(place) == []


@pytest.mark.parametrize("commit", [True, False])
async def test_a_late_end_of_n_leaves_the_next_one_alone(s: Script, commit: bool) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "n")
    sent = s.watch(methods.END_TRANSACTION)
    await s.end(writer, commit, counts={place: 1} if commit else None)
    copy = await sent.caught()
    following = writer.next()
    await s.write(place, following, "n+1")
    copy.deliver_late()
    await s.sleep(0.5)
    assert await s.outcome(following) == ONGOING
    assert (await s.end(writer, commit)).outcome == (COMMITTED if commit else ABORTED)
    await s.end(following, counts={place: 1}, visible=True)
    assert await s.read(place) == (["n", "n+1"] if commit else ["n+1"])


@pytest.mark.parametrize("commit", [True, False])
async def test_the_outcomes_of_n_and_the_next_one_are_independent(s: Script, commit: bool) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "n")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    await s.end(writer, commit, counts={place: 1} if commit else None)
    following = writer.next()
    await s.write(place, following, "n+1")
    await s.end(following, not commit, counts=None if commit else {place: 1})
    await markers.caught()
    markers.release()
    await s.stable(place)
    assert await s.read(place) == (["n"] if commit else ["n+1"])


async def test_what_the_coordinator_does_not_know_is_aborted_within_the_bound(s: Script) -> None:
    place = await s.place()
    writer = (await s.session("t")).of(txn_no=5)
    held = s.hold(methods.ENROL_PARTITIONS)
    writing = s.start(s.write(place, writer, "x", timeout_ms=20_000))
    await held.caught()
    leadership = s.replica(s.leader(place), place).leadership
    assert leadership is not None
    # The coordinator's yes, of which it has no record any more (its log was restored from a backup, say).
    leadership.enrolled(TxnSession(writer.txn_producer_id, 5, writer.epoch), None)
    await writing
    assert await s.latest(place) == 0
    await s.stable(place, within_s=6)
    assert await s.read(place) == []
    assert (await s.resolve(writer, place)).outcome == ABORTED
