"""Holes 1, 5, 6, 8, 11, 12, 14, 15, 16, 17, 20: who decides, who may speak, and what is never forgotten."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.core.batch.header import read_header
from oncelog.v1 import coordinator_pb2 as co
from oncelog.wire import methods
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import ABORTED, COMMITTED, ONGOING, Script


async def test_an_append_of_a_deposed_coordinator_never_lands(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t", timeout_ms=4_000)
    await s.write(place, writer, "x")
    old = s.owner("t")
    held = s.hold(methods.PRODUCE, source=old)  # C1's PREPARE_COMMIT is on its way
    request = s.end_request(writer, counts={place: 1})
    told = s.start(s.call(old, methods.END_TRANSACTION, request, timeout_ms=20_000))
    await held.caught()
    await s.depose_coordinator(old)  # C2 has read the log to its end: n is ongoing
    held.release()
    try:
        heard_committed = (await told).outcome == COMMITTED
    except errors.RetriableError:
        heard_committed = False
    await s.sleep(8)  # nobody else ends n, so its time-out does
    assert await s.outcome(writer) == ABORTED
    assert not heard_committed, "COMMITTED was told, and n is aborted"
    await s.stable(place)
    assert await s.read(place) == []


async def test_an_append_of_an_earlier_life_never_lands(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    owner, log = s.owner("t"), s.shard_log("t")
    epoch = s.shard_of(owner, "t").epoch
    held = s.hold(methods.PRODUCE, source=owner, match=lambda _, data: read_header(data).producer_epoch == epoch)
    told = s.start(s.call(owner, methods.END_TRANSACTION, s.end_request(writer, counts={place: 1}), timeout_ms=40_000))
    first = await held.caught()
    with pytest.raises(errors.RetriableError):  # after its deadline the life is given up; the next one replays
        await told
    await s.until(lambda: s.shard_of(owner, "t").is_serving)
    first.deliver_late()
    await s.sleep(1)
    _, headers = await s.fetch(log, committed=False)
    epochs = [header.producer_epoch for header in headers]
    assert epochs == sorted(epochs), "nothing of an earlier epoch lies behind a later one"
    assert await s.outcome(writer) == ONGOING
    assert (await s.end(writer, counts={place: 1})).outcome == COMMITTED


async def test_healing_hears_the_winners(s: Script) -> None:
    place = await s.place()
    winner, loser = await s.join(), await s.join()
    await s.write_as(winner, place, "w")
    await s.write_as(loser, place, "z")
    s.hold(methods.WRITE_TXN_MARKERS)  # for ever: the partition must ask
    await s.commit_batch("q", winner.writer.txn_no, [winner])
    await s.stable(place)
    assert await s.read(place) == ["w"]


async def test_a_deposed_coordinator_does_not_say_ongoing(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    old = s.owner("t")
    await s.depose_coordinator(old)
    await s.end(writer, counts={place: 1})  # at the new owner
    request = co.GetOutcomeRequest(transactional_id="t", txn_no=writer.txn_no)
    for spec, question in ((methods.GET_OUTCOME, request), (methods.RESOLVE_TRANSACTION, s.resolve_request(writer))):
        with pytest.raises(errors.RetriableError):
            await s.call(old, spec, question)


async def test_a_deposed_coordinator_does_not_speak_of_what_it_does_not_know(s: Script) -> None:
    place = await s.place()
    old = s.owner("t")
    await s.depose_coordinator(old)
    writer = await s.session("t")
    await s.write(place, writer, "x")
    with pytest.raises(errors.RetriableError):  # presumed abort from memory would end what C2 commits
        await s.call(old, methods.RESOLVE_TRANSACTION, s.resolve_request(writer, place))
    await s.end(writer, counts={place: 1})
    await s.stable(place)
    assert await s.read(place) == ["x"]


async def test_a_deposed_coordinator_does_not_return_old_offsets(s: Script) -> None:
    place = await s.place()
    await s.commit_offset("g", place, 10)
    old = s.group_owner("g")
    await s.depose_coordinator(old)
    await s.commit_offset("g", place, 20)
    with pytest.raises(errors.RetriableError):
        await s.call(old, methods.FETCH_OFFSETS, s.fetch_offsets_request("g", place))
    assert await s.committed_offset("g", place) == 20


async def test_the_asker_refuses_an_older_epoch_than_it_knows(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.write(place, writer, "x")
    await s.mark(s.leader(place), s.marker_request(writer.of(txn_no=writer.txn_no + 7), place, epoch=9))
    with pytest.raises(errors.CoordinatorFencedError):
        await s.mark(s.leader(place), s.marker_request(writer, place, epoch=8))
    request = s.resolve_request(writer, place, epoch=9)
    with pytest.raises(errors.NotCoordinatorError):
        await s.call(s.owner("t"), methods.RESOLVE_TRANSACTION, request)


async def test_a_decision_survives_the_record_of_the_next_transaction(s: Script) -> None:
    first, second = await s.topic("work", 2, min_insync_replicas="2")
    winner, loser = await s.join(batch=1), await s.join(batch=1)
    await s.write_as(winner, first, "w")
    await s.write_as(loser, first, "z")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    await s.commit_batch("q", winner.writer.txn_no, [winner], batch=1)
    following = await s.join(batch=2)  # ONGOING(n+1) under the same key
    await s.write_as(following, second, "y")
    await markers.caught()
    old = s.owner("q")
    s.kill(old)
    markers.close()  # what was on its way is lost with its sender
    await s.until(lambda: s.owner("q") not in ("", old))
    await s.stable(first)
    assert await s.read(first) == ["w"]
    assert (await s.join_reply("q", "run-1", 1)).already_committed
    await s.commit_batch("q", following.writer.txn_no, [following], batch=2)
    await s.stable(second)
    assert await s.read(second) == ["y"]


async def test_enrolments_are_no_deltas(s: Script) -> None:
    first, second = await s.topic("work", 2, min_insync_replicas="2")
    writer = await s.session("t")
    await s.enrol(writer, first)
    await s.write(first, writer, "x")
    await s.enrol(writer, second)
    await s.write(second, writer, "y")
    old = s.owner("t")
    s.kill(old)
    await s.until(lambda: s.owner("t") not in ("", old))
    await s.end(writer, counts={first: 1, second: 1}, visible=True)
    assert await s.read(first, second) == ["x", "y"]


async def test_a_task_of_an_ended_attempt_is_told_so_also_after_fail_over(s: Script) -> None:
    place = await s.place()
    one = await s.join(lease_ms=1_000)
    await s.write_as(one, place, "p1")
    await s.sleep(3)  # no task runs for a while: the lease aborts the transaction
    assert await s.outcome(one.writer) == ABORTED
    old = s.owner("q")
    s.kill(old)
    await s.until(lambda: s.owner("q") not in ("", old))
    with pytest.raises(errors.TxnEndedError):  # the same run, batch and attempt: no part of another number
        await s.join()
    with pytest.raises(errors.TxnAbortedError):
        await s.commit_batch("q", one.writer.txn_no, [one])
    assert await s.read(place) == []


async def test_a_commit_names_the_transaction_that_its_winners_joined(s: Script) -> None:
    place = await s.place()
    one = await s.join(attempt="1")
    await s.write_as(one, place, "p1")
    two = await s.join(attempt="2")  # a later attempt ends the first one
    await s.write_as(two, place, "p2")
    assert two.writer.txn_no != one.writer.txn_no
    with pytest.raises(errors.OncelogError):
        await s.commit_batch("q", one.writer.txn_no, [one, two], attempt="2")
    await s.commit_batch("q", two.writer.txn_no, [two], attempt="2")
    await s.stable(place)
    assert await s.read(place) == ["p2"]


async def test_a_deposed_leader_does_not_say_that_a_marker_is_in(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    old = s.leader(place)
    s.cut(old, *s.followers(place))
    s.cut_from_etcd(old)
    new = await s.new_leader(place, old)
    await s.write(place, writer, "x", to=new)  # n is open at the new leader
    assert s.leads(old, place), "it does not know yet"
    with pytest.raises(errors.RetriableError):  # and has nothing open
        await s.mark(old, s.marker_request(writer, place), timeout_ms=3_000)


async def test_a_late_copy_of_a_marker_is_known_whatever_session_came_since(s: Script) -> None:
    """Taken for new, it would find none of the records that it says must be there."""
    place = await s.place()
    markers = s.watch(methods.WRITE_TXN_MARKERS)
    for value in ("x", "y"):
        writer = await s.session("t")
        await s.write(place, writer, value)
        await s.end(writer, counts={place: 1}, visible=True)
    end = await s.latest(place)
    (await markers.caught()).deliver_late()
    await s.sleep(1)
    assert await s.read(place) == ["x", "y"]
    assert await s.latest(place) == end, "nothing was written"


async def test_a_late_copy_does_not_open_an_ended_transaction_again(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.enrol(writer, place)
    held = s.hold(methods.PRODUCE, source="script")
    late = s.start(s.write(place, writer, "x", timeout_ms=20_000))
    await held.caught()
    held.close()
    await s.end(writer, commit=False, visible=True)  # nothing is open there, and yet it is written down
    ended = s.replica(s.leader(place), place).log.producers.transactions.ended
    assert writer.txn_producer_id in ended, "and remembered for ever"
    held.release()
    with pytest.raises(errors.TxnEndedError):
        await late
    assert await s.latest(place) == await s.latest(place, committed=False)


async def test_the_owner_of_a_group_shard_applies_the_marker(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.send_offsets(writer, "g", place, 7, sequence=1)
    old = s.group_owner("g")
    s.kill(old)
    await s.until(lambda: s.group_owner("g") not in ("", old))
    assert (await s.end(writer, visible=True)).visible
    assert await s.committed_offset("g", place) == 7, "VISIBLE was told: it is applied"


async def test_a_group_shard_heals_by_itself(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    await s.send_offsets(writer, "g", place, 7, sequence=1)
    s.hold(methods.WRITE_GROUP_MARKERS)  # for ever
    await s.end(writer)
    with pytest.raises(errors.UnstableOffsetCommitError):
        await s.call(s.group_owner("g"), methods.FETCH_OFFSETS, s.fetch_offsets_request("g", place, stable=True))
    assert await s.committed_offset("g", place, stable=True) == 7


async def test_below_the_list_the_answer_is_forgotten(s: Script) -> None:
    writer = first = await s.session("t")
    for _ in range(102):
        assert (await s.end(writer)).outcome == COMMITTED
        writer = writer.next()
    with pytest.raises(errors.OutcomeForgottenError):
        await s.outcome(first)
    with pytest.raises(errors.OutcomeForgottenError):
        await s.end(first)
    assert await s.outcome(first.of(txn_no=90)) == COMMITTED


async def test_a_fenced_session_cannot_use_the_next_number(s: Script) -> None:
    place = await s.place()
    first = await s.session("t")
    new = await s.session("t")
    old = first.next()
    assert old.txn_no == new.txn_no, "a zombie that counts on by itself"
    await s.write(place, new, "new")
    with pytest.raises(errors.InvalidProducerEpochError):
        await s.write(place, old, "old")
    with pytest.raises(errors.ProducerFencedError):
        await s.enrol(old, place)
    with pytest.raises(errors.ProducerFencedError):
        await s.end(old)
    await s.end(new, counts={place: 1}, visible=True)
    assert await s.read(place) == ["new"]


async def test_the_token_is_the_last_committed_one_of_each_app(s: Script) -> None:
    await s.commit_batch("q", 0, [], batch=57, app="a", attempt="1")
    await s.commit_batch("q", 0, [], batch=0, app="b", attempt="2")
    aborted = await s.join(batch=58, app="a", attempt="3")
    request = co.AbortTransactionRequest(
        transactional_id="q",
        owner_run="run-1",
        txn_no=aborted.writer.txn_no,
        token=co.CommitToken(app_id="a", batch_id=58),
    )
    await s.ask("q", methods.ABORT_TRANSACTION, request)
    old = s.owner("q")
    s.kill(old)
    await s.until(lambda: s.owner("q") not in ("", old))
    assert (await s.join_reply("q", "run-2", 57, "9", "a")).already_committed
    assert (await s.join_reply("q", "run-1", 0, "9", "b")).already_committed
    assert not (await s.join_reply("q", "run-1", 58, "9", "a")).already_committed
    with pytest.raises(errors.BatchRolledBackError):
        await s.join_reply("q", "run-1", 56, "9", "a")


async def test_a_token_is_told_only_when_it_is_committed(s: Script) -> None:
    place = await s.place()
    task = await s.join()
    await s.write_as(task, place, "x")
    owner = s.owner("q")
    held = s.hold(methods.PRODUCE, source=owner)  # the decision is on its way to the log
    deciding = s.start(s.commit_batch("q", task.writer.txn_no, [task]))
    await held.caught()
    replay = s.start(s.join_reply("q", "run-1", 0))
    await s.sleep(0.3)
    assert not replay.done(), "ALREADY_COMMITTED must not be told of what may never be"
    held.release()
    assert (await deciding).committed_rows == 1
    assert (await replay).already_committed


async def test_a_lost_answer_about_ownership_leaves_no_shard_without_service(s: Script) -> None:
    (old,) = {s.owner("t")}
    survivor = next(name for name in ("coordinator-0", "coordinator-1") if name != old)
    s.lose_etcd_answers(survivor, keys.SHARDS, count=2)
    s.kill(old)
    await s.until(lambda: s.owner("t") == survivor, within_s=10)
    began = s.now_ms
    await s.session("t")
    assert s.now_ms - began < 2_000


async def test_a_transaction_that_enrolled_nothing_is_closed_for_ever(s: Script) -> None:
    place = await s.place()
    writer = await s.session("t")
    held = s.hold(methods.PRODUCE, source="script")
    late = s.start(s.write(place, writer, "late", timeout_ms=20_000))  # n's only batch
    await held.caught()
    held.close()
    await s.end(writer, commit=False)
    following = writer.next()
    await s.write(place, following, "next")
    held.release()
    with pytest.raises(errors.OncelogError, match=r"abort|ended"):
        await late
    await s.end(following, counts={place: 1}, visible=True)
    assert await s.read(place) == ["next"]


async def test_a_batch_without_rows_stores_its_token(s: Script) -> None:
    assert not (await s.commit_batch("q", 0, [], batch=3)).already_committed
    assert (await s.commit_batch("q", 0, [], batch=3)).already_committed
    assert (await s.join_reply("q", "run-1", 3)).already_committed
