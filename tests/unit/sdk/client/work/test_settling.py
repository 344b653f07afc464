"""What is said about records goes to their brokers in few calls, and each word has one end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.home.context import now_ms
from oncelog.client.produce.producer import Producer
from oncelog.client.work import settling
from oncelog.client.work.message import ChannelMessage
from oncelog.client.work.worker import Worker
from oncelog.core.work.settlements import judge
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster, Lost
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import CHANNEL, FakeChannels
from tests.unit.sdk.client.work.working import at_work, at_work_with_a_producer, received


def test_many_are_settled_in_one_call_with_one_item(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(50)])

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 50:
            got += await worker.getmany()
        before = cluster.count("Settle")
        await worker.ack(got)
        assert cluster.count("Settle") == before + 1
        assert [(i.first_offset, i.last_offset) for i in channels.settlements[-1].items] == [(0, 49)]

    at_work(cluster, work)


def test_words_of_many_tasks_go_together(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(40)])

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 40:
            got += await worker.getmany()
        before = cluster.count("Settle")
        await asyncio.gather(*(message.ack() for message in got))
        assert cluster.count("Settle") - before <= 6, "four may be on their way, what gathers meanwhile goes together"

    at_work(cluster, work)
    assert channels.settled() == list(range(40))


def test_a_lost_answer_is_asked_for_again(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", Lost())

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.ack()
        assert cluster.count("Settle") == 2

    at_work(cluster, work, {"request_timeout_ms": 200})


def test_a_copy_of_a_nack_is_no_failure(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", Lost())

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        await message.nack(delay_ms=5_000)

    at_work(cluster, work, {"request_timeout_ms": 200})


def test_the_outcome_stays_unknown_at_the_deadline_and_it_may_be_said_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", *(errors.NetworkError() for _ in range(200)))

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        with pytest.raises(errors.NetworkError):
            await message.ack()
        cluster.faults.clear()
        await message.ack()

    at_work(cluster, work, {"default_api_timeout_ms": 1_000})


def test_a_fail_over_brings_the_record_again_and_the_earlier_word_is_refused(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        channels.fail_over(0, BROKERS[1])
        with pytest.raises(errors.NotOwnerError):
            await message.ack()
        (again,) = await worker.getmany(timeout_ms=5_000)
        await again.ack()

    at_work(cluster, work)
    assert channels.settled() == [0]


def test_a_close_waits_for_what_was_said(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    saying: list[asyncio.Future[None]] = []

    async def work(worker: Worker) -> None:
        (message,) = await worker.getmany()
        saying.append(asyncio.ensure_future(message.ack()))
        await asyncio.sleep(0.0005)

    at_work(cluster, work)
    assert channels.settled() == [0]


def test_a_transaction_that_commits_settles_and_one_that_aborts_brings_it_again(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1"])
    append(cluster, [b"2"], partition=1)

    async def work(worker: Worker, producer: Producer) -> None:
        got = await received(worker, 3)
        async with producer.transaction() as txn:
            for wrong in ("abc", [1], [got[0], None]):
                with pytest.raises(TypeError, match="the messages that it handed out"):
                    await txn.ack(wrong)
            await txn.ack(got[0])
            await txn.ack(got[1:])
            assert {message.state for message in got} == {"settled"}
            assert worker.in_flight == 0
            with pytest.raises(errors.IllegalStateError):
                await got[0].ack()
        channels.end_transaction(txn.txn_no, is_committed=True)

    at_work_with_a_producer(cluster, work)
    assert (channels.settled(0), channels.settled(1)) == ([0, 1], [0])
    asked = [request for request in channels.settlements if request.HasField("transaction")]
    assert {(r.transaction.transactional_id, r.transaction.txn_no) for r in asked} == {("t", 1)}


def test_a_refused_acknowledgement_fails_the_transaction(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker, producer: Producer) -> None:
        got = await received(worker, 2)
        channels.parts[0].entries[1].worker = "another"
        txn = await producer.begin_transaction()
        with pytest.raises(errors.NotOwnerError):
            await txn.ack(got)
        assert [message.state for message in got] == ["held", "lost"]
        with pytest.raises(errors.NotOwnerError):
            await txn.commit()
        await txn.abort()
        assert txn.outcome == "aborted"
        await got[0].ack()

    at_work_with_a_producer(cluster, work)
    assert channels.settled() == [0]


def test_an_acknowledgement_in_a_transaction_follows_a_new_leader(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", Lost(), errors.NetworkError())

    async def work(worker: Worker, producer: Producer) -> None:
        (message,) = await received(worker, 1)
        async with producer.transaction() as txn:
            await txn.ack(message)
        assert txn.outcome == "committed"

    at_work_with_a_producer(cluster, work, request_timeout_ms=100)
    assert len([r for r in channels.settlements if r.HasField("transaction")]) == 2


def test_an_acknowledgement_whose_outcome_is_not_known_fails_the_transaction(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", *(errors.NetworkError() for _ in range(100)))

    async def work(worker: Worker, producer: Producer) -> None:
        (message,) = await received(worker, 1)
        txn = await producer.begin_transaction()
        with pytest.raises(errors.NetworkError):
            await txn.ack(message)
        await txn.abort()
        assert (txn.outcome, message.state, worker.in_flight) == ("aborted", "lost", 0)

    at_work_with_a_producer(cluster, work, default_api_timeout_ms=500)


def test_a_word_about_a_partition_without_a_leader_ends_at_its_deadline(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])

    async def whole(_: FakeCluster) -> None:
        async with (
            cluster.client(default_api_timeout_ms=1_000) as client,
            client.worker(TOPIC, channel=CHANNEL) as worker,
        ):
            (message,) = await received(worker, 1)
            cluster.leaders[0] = None
            await worker._metadata.refresh(now_ms() + 1_000)
            async with asyncio.timeout(5):
                with pytest.raises(errors.LeaderNotAvailableError):
                    await message.ack()
            cluster.leaders[0] = BROKERS[0]

    cluster.run(whole)


@pytest.mark.parametrize("refusal", [None, errors.TxnEndedError("it is decided")])
def test_a_commit_waits_for_an_acknowledgement_that_is_on_its_way(
    cluster: FakeCluster, channels: FakeChannels, refusal: errors.OncelogError | None
) -> None:
    """Otherwise the output could be committed without it, and the record come again."""
    append(cluster, [b"0"])

    async def work(worker: Worker, producer: Producer) -> None:
        (message,) = await received(worker, 1)

        async def slowly(*given: Any) -> Any:
            await asyncio.sleep(0.5)
            if refusal is not None:
                raise refusal
            return await channels._Settle(*given)

        cluster._Settle = slowly  # type: ignore[attr-defined]
        txn = await producer.begin_transaction()
        await txn.send(TOPIC, b"output")
        acknowledging = asyncio.ensure_future(txn.ack(message))
        await asyncio.sleep(0.01)
        committed, acknowledged = await asyncio.gather(txn.commit(), acknowledging, return_exceptions=True)
        assert (committed, acknowledged) == (refusal, refusal)
        assert txn.outcome == ("committed" if refusal is None else "failed")
        cluster._Settle = channels._Settle  # type: ignore[attr-defined]

    at_work_with_a_producer(cluster, work)


@pytest.mark.parametrize("in_a_pause", [False, True])
def test_an_acknowledgement_that_is_cancelled_in_a_transaction_fails_it(
    cluster: FakeCluster, channels: FakeChannels, in_a_pause: bool
) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker, producer: Producer) -> None:
        (message,) = await received(worker, 1)

        async def silent(*_: object) -> object:
            await asyncio.sleep(0 if in_a_pause else 60)
            raise errors.NetworkError()

        cluster._Settle = silent  # type: ignore[attr-defined]
        txn = await producer.begin_transaction()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await txn.ack(message)
        assert (message.state, worker.in_flight) == ("lost", 0)
        with pytest.raises(errors.TransactionAbortableError, match="cancelled"):
            await txn.commit()
        cluster._Settle = channels._Settle  # type: ignore[attr-defined]
        await txn.abort()

    at_work_with_a_producer(cluster, work)


def test_a_record_that_comes_again_while_it_is_acknowledged_in_a_transaction_fails_it(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    """The old leader hangs, and the new one delivers the record once more: it would be processed twice."""
    append(cluster, [b"0"])

    async def work(worker: Worker, producer: Producer) -> None:
        (message,) = await received(worker, 1)

        async def hangs(*_: object) -> object:
            channels.fail_over(0, BROKERS[1])
            await worker._metadata.refresh(now_ms() + 1_000)
            await asyncio.sleep(2)
            raise errors.NetworkError()

        cluster._Settle = hangs  # type: ignore[attr-defined]
        txn = await producer.begin_transaction()
        with pytest.raises(errors.NotOwnerError):
            await txn.ack(message)
        cluster._Settle = channels._Settle  # type: ignore[attr-defined]
        await txn.abort()
        assert message.state == "lost"

    at_work_with_a_producer(cluster, work, request_timeout_ms=3_000)


def test_one_failure_leaves_the_others_done(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        got = await received(worker, 3)
        channels.parts[0].entries[1].worker = "another"
        with pytest.raises(errors.NotOwnerError):
            await worker.ack(got)
        assert [message.state for message in got] == ["settled", "lost", "settled"]

    at_work(cluster, work)
    assert channels.settled() == [0, 2]


def test_a_definite_refusal_leaves_the_message_with_the_caller(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])
    cluster.fail("Settle", errors.InvalidRequestError("no"))

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        with pytest.raises(errors.InvalidRequestError):
            await message.ack()
        assert message.state == "held"
        await message.ack()

    at_work(cluster, work)


@pytest.mark.parametrize("place", ["items_of", "judge"], ids=["before the call", "after it"])
def test_a_defect_of_ours_leaves_the_message_with_the_caller(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Else who said it waits for a fate that never comes."""
    append(cluster, [b"0", b"1"])

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 2:
            got += await worker.getmany()
        with monkeypatch.context() as patched:
            patched.setattr(settling, place, breaks)
            with pytest.raises(errors.IllegalStateError, match=r"report this.*ZeroDivisionError"):
                await asyncio.wait_for(worker.ack(got), 5)
        assert [message.state for message in got] == ["held"] * 2
        if place == "items_of":  # else the broker has done it
            await worker.ack(got)

    at_work(cluster, work)
    assert channels.settled() == [0, 1]


def test_a_defect_that_a_word_meets_before_it_goes_ends_that_one(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in (0, 1):
        append(cluster, [b"%d" % partition], partition=partition)

    def breaks(_: object, word: Any, _now: int) -> bool:
        if word.held.place.partition == 0:
            raise ZeroDivisionError("a defect")
        return False

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 2:
            got += await worker.getmany()
        got.sort(key=lambda message: message.partition)
        with monkeypatch.context() as patched:
            patched.setattr(settling.Settler, "_is_given_up", breaks)
            acks = (asyncio.wait_for(message.ack(), 5) for message in got)
            told = await asyncio.gather(*acks, return_exceptions=True)
        assert [type(error) for error in told] == [errors.IllegalStateError, type(None)]
        assert [message.state for message in got] == ["held", "settled"]
        await got[0].ack()

    at_work(cluster, work)


def test_a_defect_of_ours_leaves_what_is_known_as_it_is(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(cluster, [b"0", b"1"])
    judged: list[object] = []

    def breaks_at_the_second(*given: Any) -> Any:
        judged.append(given)
        if len(judged) == 2:
            raise ZeroDivisionError("a defect")
        return judge(*given)

    async def work(worker: Worker) -> None:
        got: list[ChannelMessage] = []
        while len(got) < 2:
            got += await worker.getmany()
        with monkeypatch.context() as patched:
            patched.setattr(settling, "judge", breaks_at_the_second)
            first, second = await asyncio.gather(*(message.ack() for message in got), return_exceptions=True)
        assert first is None
        assert isinstance(second, errors.IllegalStateError)

    at_work(cluster, work)
    assert len(judged) == 2


def test_a_reader_does_not_ask_without_a_pause_whether_a_record_is_its_own(
    cluster: FakeCluster, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(cluster, [b"0", b"1"])

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async def work(worker: Worker) -> None:
        await worker.getmany(1)
        await asyncio.sleep(0.6)  # the second record has waited here for too long
        before = cluster.count("Settle")
        with monkeypatch.context() as patched:
            patched.setattr(settling, "judge", breaks)
            await worker.getmany(timeout_ms=2_000)
        assert 1 <= cluster.count("Settle") - before <= 10

    at_work(cluster, work)


@pytest.mark.parametrize("is_touched", [False, True])
@pytest.mark.parametrize("leader", BROKERS[:2])
def test_what_was_done_without_an_answer_is_done_when_it_is_said_again(
    cluster: FakeCluster, channels: FakeChannels, leader: str, is_touched: bool
) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker) -> None:
        first, second = await received(worker, 2)
        cluster.fail("Settle", *(Lost() for _ in range(200)))
        for word in (first.ack, second.reject):
            with pytest.raises(errors.RequestTimedOutError):
                await word()
        cluster.faults.clear()
        if leader != BROKERS[0]:
            channels.fail_over(0, leader)
        await asyncio.sleep(2)
        await first.ack()
        assert first.state == "settled"

    at_work(cluster, work, {"default_api_timeout_ms": 1_000}, ack_wait_ms=3_000, auto_touch=is_touched)
    assert channels.settled() == [0, 1]


def test_nothing_is_settled_at_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    async def work(worker: Worker) -> None:
        await worker.ack([])
        assert cluster.count("Settle") == 0

    at_work(cluster, work)


def test_a_message_that_is_given_twice_is_told_once(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        await worker.ack([message, message])

    at_work(cluster, work)
    assert channels.settled() == [0]


def test_one_that_was_lost_keeps_no_other_from_being_settled(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        got = await received(worker, 3)
        entry = channels.parts[0].entries[1]
        entry.worker, entry.deadline_s = "another", 1_000.0
        await asyncio.sleep(1)
        assert [message.state for message in got] == ["held", "lost", "held"], "a touch has told"
        with pytest.raises(errors.NotOwnerError, match="offset=1"):
            await worker.ack(got)
        assert [message.state for message in got] == ["settled", "lost", "settled"]

    at_work(cluster, work, ack_wait_ms=500, auto_touch=True)
    assert channels.settled() == [0, 2]


def test_nothing_is_said_when_one_was_settled_already(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"0", b"1"])

    async def work(worker: Worker) -> None:
        first, second = await received(worker, 2)
        await second.ack()
        with pytest.raises(errors.IllegalStateError, match="offset=1"):
            await worker.ack([first, second])
        assert first.state == "held"

    at_work(cluster, work)
    assert channels.settled() == [1]


def test_what_is_given_back_after_a_fail_over_is_not_told_to_the_new_leader(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0", b"1", b"2"])

    async def work(worker: Worker) -> None:
        first, second, third = await received(worker, 3)
        channels.fail_over(0, None)
        given_back = asyncio.ensure_future(first.nack())
        await asyncio.sleep(0.1)
        channels.fail_over(0, BROKERS[1])
        await given_back
        with pytest.raises(errors.NotOwnerError):
            await second.reject("no")
        with pytest.raises(errors.NotOwnerError):
            await third.touch()
        assert [address for address, method, _ in cluster.calls if method == "Channels.Settle"] == [BROKERS[0]]
        again = await received(worker, 3)
        assert [message.deliveries for message in again] == [2, 2, 2]
        await worker.ack(again)

    at_work(cluster, work)
    assert channels.settled() == [0, 1, 2]


def test_what_is_given_back_is_not_told_to_the_same_broker_in_a_newer_epoch(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    append(cluster, [b"0"])

    async def work(worker: Worker) -> None:
        (message,) = await received(worker, 1)
        channels.fail_over(0, BROKERS[0])
        await worker._metadata.refresh(now_ms() + 1_000)
        await message.nack()
        assert not [address for address, method, _ in cluster.calls if method == "Channels.Settle"]

    at_work(cluster, work)


def test_a_leader_whose_epoch_is_newer_than_the_metadata_is_told_every_word(
    cluster: FakeCluster, channels: FakeChannels
) -> None:
    """A move of replicas raises the epoch of a leader that stays, and nothing has the worker ask for metadata."""

    async def work(worker: Worker) -> None:
        channels.fail_over(0, BROKERS[0])
        append(cluster, [b"0", b"1", b"2"])
        first, second, third = await received(worker, 3)
        assert worker._metadata.leader(worker._partitions.id_of(0)).leader_epoch < cluster.epochs[0]
        await third.touch()
        await second.reject("no")
        await first.nack()
        (again,) = await received(worker, 1)
        assert (again.offset, again.deliveries) == (0, 2)
        await worker.ack([again, third])

    at_work(cluster, work)
    assert channels.settled() == [0, 1, 2]


def test_no_acknowledgement_waits_for_a_dead_letter(cluster: FakeCluster, channels: FakeChannels) -> None:
    append(cluster, [b"%d" % i for i in range(8)])
    channels.letters.clear()

    async def work(worker: Worker) -> None:
        *rejected, good, last = await received(worker, 8)
        waiting = []
        for message in rejected:  # more calls than may be under way
            waiting.append(asyncio.ensure_future(message.reject("no")))
            await asyncio.sleep(0.01)
        first = asyncio.ensure_future(good.reject("no"))
        async with asyncio.timeout(1):
            await last.ack()
        assert not any(one.done() for one in (*waiting, first))
        channels.letters.set()
        await asyncio.gather(*waiting, first)

    at_work(cluster, work)
    assert channels.settled() == [*range(8)]
    assert {*channels.parts[0].dead} == {*range(7)}
