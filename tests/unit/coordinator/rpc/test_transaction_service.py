"""Requests about transactions go to the right shard, with the session's token, and their answers say what was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.rpc.transaction_service import TransactionService
from oncelog_runtime.core import listeners
from oncelog_runtime.core.quota import QuotaKind
from oncelog_runtime.core.security.quotas import ADDRESS, Quota
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.serving.call_context import CALL, CallInfo
from tests.unit.coordinator.fake_cluster import TXN_TOPIC_ID, USER_TOPIC_ID
from tests.unit.coordinator.serving import COORDINATOR, Serving, serve

COMMITTED, ABORTED = types_pb2.TRANSACTION_OUTCOME_COMMITTED, types_pb2.TRANSACTION_OUTCOME_ABORTED
VISIBLE = co.END_WAIT_VISIBLE


def user(*partitions: int) -> list[types_pb2.TopicPartition]:
    return [types_pb2.TopicPartition(topic_id=USER_TOPIC_ID, partition=number) for number in partitions]


async def enrolled(here: Serving, *partitions: int, transactional_id: str = "t") -> co.TransactionName:
    """A transaction with partitions."""
    name = await here.begin(transactional_id)
    await here.transactions.enrol_partitions(co.EnrolPartitionsRequest(name=name, partitions=user(*partitions)))
    return name


async def joined(here: Serving, run: str = "run") -> co.JoinTransactionReply:
    request = co.JoinTransactionRequest(
        transactional_id="q", owner_run=run, token=co.CommitToken(app_id="app", batch_id=4), write_attempt="1"
    )
    return await here.transactions.join_transaction(request)


def commit_of(joined: co.JoinTransactionReply, **more: Any) -> co.CommitTransactionRequest:
    return co.CommitTransactionRequest(
        transactional_id="q",
        owner_run="run",
        txn_no=joined.txn_no,
        token=co.CommitToken(app_id="app", batch_id=4),
        write_attempt="1",
        session_token=joined.session_token,
        **more,
    )


# ---------------------------------------------------------------- sessions


def test_a_plain_producer_gets_an_id_and_the_token_of_it() -> None:
    async def scenario(here: Serving) -> None:
        reply = await here.transactions.init_producer_id(co.InitProducerIdRequest())
        assert reply.producer_id == 100
        here.tokens.require_producer(100, reply.session_token)
        with pytest.raises(errors.InvalidRequestError):
            await here.transactions.init_producer_id(co.InitProducerIdRequest(transaction_timeout_ms=1))

    serve(scenario, tokens=True)


def test_a_session_is_told_its_shard_and_takes_a_producer_id_only_when_the_id_is_new() -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        assert name.txn_shard == here.shards.transaction_shard_number("t")
        again = await here.begin("t")
        assert (again.txn_producer_id, again.producer_epoch) == (name.txn_producer_id, name.producer_epoch + 1)
        assert (await here.begin("other")).txn_producer_id == name.txn_producer_id + 1, "none was burnt"

    serve(scenario)


def test_an_id_that_a_lost_life_knew_gets_a_producer_id_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(here: Serving) -> None:
        monkeypatch.setattr(here.shards, "knows", lambda shard, transactional_id: True)
        assert (await here.begin("t")).txn_producer_id == 100

    serve(scenario)


def test_a_quota_on_new_ids_is_asked_before_the_core() -> None:
    async def scenario(here: Serving) -> None:
        here.quotas.replace([Quota(ADDRESS + "10.0.0.7", {QuotaKind.TRANSACTIONAL_IDS: 1})])
        CALL.set(CallInfo(peer="ipv4:10.0.0.7:4", listener="client"))
        await here.begin("t")
        with pytest.raises(errors.ThrottlingQuotaExceededError):
            await here.begin("other")
        number = here.shards.transaction_shard_number("other")
        assert not here.shards.knows(here.owned[KIND_TXN, number], "other")

    serve(scenario)


# ---------------------------------------------------------------- tokens, and shards of others


Call = Callable[[TransactionService, co.TransactionName], Awaitable[object]]
OF_A_SESSION: dict[str, Call] = {
    "enrol": lambda it, name: it.enrol_partitions(co.EnrolPartitionsRequest(name=name, partitions=user(0))),
    "end": lambda it, name: it.end_transaction(co.EndTransactionRequest(name=name, outcome=COMMITTED)),
    "renew": lambda it, name: it.renew_transaction(co.RenewTransactionRequest(name=name, owner_run="run")),
    "commit": lambda it, name: it.commit_transaction(
        co.CommitTransactionRequest(
            transactional_id=name.transactional_id, txn_no=1, owner_run="run", session_token=name.session_token
        )
    ),
    "abort": lambda it, name: it.abort_transaction(
        co.AbortTransactionRequest(
            transactional_id=name.transactional_id, txn_no=1, owner_run="run", session_token=name.session_token
        )
    ),
}
OF_AN_ID: dict[str, Call] = {
    "outcome": lambda it, name: it.get_outcome(
        co.GetOutcomeRequest(transactional_id=name.transactional_id, txn_no=name.txn_no)
    ),
    "describe": lambda it, name: it.describe_transaction(
        co.DescribeTransactionRequest(transactional_id=name.transactional_id)
    ),
    "force abort": lambda it, name: it.force_abort(co.ForceAbortRequest(transactional_id=name.transactional_id)),
}


@pytest.mark.parametrize("call", OF_A_SESSION.values(), ids=OF_A_SESSION)
@pytest.mark.parametrize("token", [b"", b"x" * 20])
def test_what_a_session_does_needs_its_token(call: Call, token: bytes) -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        name.session_token = token
        with pytest.raises(errors.TransactionalIdAuthorizationError):
            await call(here.transactions, name)

    serve(scenario, tokens=True)


@pytest.mark.parametrize("call", [*OF_A_SESSION.values(), *OF_AN_ID.values()], ids=[*OF_A_SESSION, *OF_AN_ID])
def test_who_asks_for_a_shard_of_another_process_hears_where_it_is(call: Call) -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        await here.lose(KIND_TXN, name.txn_shard, to_another=True)
        with pytest.raises(errors.NotCoordinatorError) as refusal:
            await call(here.transactions, name)
        assert refusal.value.go_to == COORDINATOR

    serve(scenario)


# ---------------------------------------------------------------- a client's transaction


def test_enrolment_is_answered_with_the_epoch_of_the_shard() -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        request = co.EnrolPartitionsRequest(name=name, partitions=user(0, 1), groups=["g"])
        assert (await here.transactions.enrol_partitions(request)).coordinator_epoch == 1
        info = await here.transactions.describe_transaction(co.DescribeTransactionRequest(transactional_id="t"))
        assert (info.transaction.state, list(info.transaction.groups)) == ("ONGOING", ["g"])
        assert [(p.topic, p.partition) for p in info.transaction.partitions] == [("user", 0), ("user", 1)]

    serve(scenario)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"partitions": user(0, 1, 2), "groups": ["a", "b"]}, errors.ResourceExhaustedError),
        ({"partitions": user(9)}, errors.UnknownTopicError),
        ({"partitions": [types_pb2.TopicPartition(topic_id=TXN_TOPIC_ID)]}, errors.InvalidTopicError),
        ({"partitions": [types_pb2.TopicPartition(topic_id="x")]}, errors.InvalidRequestError),
        ({"groups": [""]}, errors.InvalidGroupIdError),
    ],
)
def test_what_cannot_be_enrolled_is_refused_and_leaves_no_trace(
    change: dict[str, Any], error: type[errors.OncelogError]
) -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        with pytest.raises(error):
            await here.transactions.enrol_partitions(co.EnrolPartitionsRequest(name=name, **change))
        asked = co.GetOutcomeRequest(transactional_id="t", txn_no=name.txn_no)
        outcome = (await here.transactions.get_outcome(asked)).outcome
        assert outcome == types_pb2.TRANSACTION_OUTCOME_NOT_BEGUN

    serve(scenario)


def test_partitions_under_another_shards_number_are_refused() -> None:
    """The number stands in the batches that wait for this answer, and whoever heals them later would ask that shard."""

    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        name.txn_shard = (name.txn_shard + 1) % 3
        with pytest.raises(errors.InvalidPidMappingError):
            await here.transactions.enrol_partitions(co.EnrolPartitionsRequest(name=name, partitions=user(0)))

    serve(scenario)


def test_a_leader_that_knows_the_logs_names_alone_is_served_by_the_shard_that_it_names() -> None:
    async def scenario(here: Serving) -> None:
        name = await here.begin("t")
        name.transactional_id = ""
        await here.transactions.enrol_partitions(co.EnrolPartitionsRequest(name=name, partitions=user(0)))
        with pytest.raises(errors.OncelogError):
            await here.transactions.end_transaction(co.EndTransactionRequest(name=name, outcome=COMMITTED))

    serve(scenario)


@pytest.mark.parametrize("outcome", [COMMITTED, ABORTED])
def test_an_end_with_visible_is_answered_when_every_marker_is_in(outcome: types_pb2.TransactionOutcome) -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0, 1)
        here.markers_wait = True
        request = co.EndTransactionRequest(name=name, outcome=outcome, wait=VISIBLE)
        ending = asyncio.ensure_future(here.transactions.end_transaction(request))
        await asyncio.sleep(0.5)
        assert not ending.done()
        here.markers_wait = False
        assert await ending == co.EndTransactionReply(outcome=outcome, visible=True)

    serve(scenario)


def test_an_end_that_waits_too_long_says_that_it_is_decided_and_not_visible() -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0)
        here.markers_wait = True
        request = co.EndTransactionRequest(name=name, outcome=COMMITTED, wait=VISIBLE)
        assert await here.transactions.end_transaction(request) == co.EndTransactionReply(outcome=COMMITTED)
        here.markers_wait = False

    serve(scenario, visible_wait_ms=200)


def test_who_waits_for_visible_goes_on_with_the_next_life_of_the_shard() -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0)
        here.markers_wait = True
        request = co.EndTransactionRequest(name=name, outcome=COMMITTED, wait=VISIBLE)
        ending = asyncio.ensure_future(here.transactions.end_transaction(request))
        await asyncio.sleep(0.1)
        partition = here.partitions[KIND_TXN, name.txn_shard]
        partition.refuse = True
        await asyncio.gather(here.owned[KIND_TXN, name.txn_shard].ask(cmd.GetOutcome("t", 9)), return_exceptions=True)
        partition.refuse = here.markers_wait = False
        assert (await ending).visible

    serve(scenario, visible_wait_ms=60_000)


def test_who_waits_for_visible_at_a_shard_that_went_away_hears_where_it_is() -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0)
        here.markers_wait = True
        request = co.EndTransactionRequest(name=name, outcome=COMMITTED, wait=VISIBLE)
        ending = asyncio.ensure_future(here.transactions.end_transaction(request))
        await asyncio.sleep(0.1)
        await here.lose(KIND_TXN, name.txn_shard, to_another=True)
        with pytest.raises(errors.NotCoordinatorError):
            await ending
        here.markers_wait = False

    serve(scenario, visible_wait_ms=60_000)


# ---------------------------------------------------------------- participants


def test_every_task_gets_a_producer_id_of_its_own_and_the_token_of_the_session() -> None:
    async def scenario(here: Serving) -> None:
        first, second = await joined(here), await joined(here)
        assert first.txn_no == second.txn_no
        assert len({first.producer_id, second.producer_id, first.txn_producer_id}) == 3
        here.tokens.require_session("q", second.txn_producer_id, second.producer_epoch, second.session_token)

    serve(scenario, tokens=True)


def test_a_batch_that_is_in_is_not_written_again_and_opens_no_session() -> None:
    async def scenario(here: Serving) -> None:
        first = await joined(here)
        winner = co.Winner(producer_id=first.producer_id, rows=5)
        reply = await here.transactions.commit_transaction(commit_of(first, winners=[winner], wait=VISIBLE))
        assert reply == co.CommitTransactionReply(committed_rows=5, txn_no=first.txn_no)
        late = await joined(here)
        assert (late.already_committed, late.committed_rows, late.session_token) == (True, 5, b"")
        again = await here.transactions.commit_transaction(commit_of(first, winners=[winner]))
        assert again.already_committed

    serve(scenario, tokens=True)


def test_a_batch_that_nobody_joined_is_committed_without_a_token() -> None:
    async def scenario(here: Serving) -> None:
        request = commit_of(co.JoinTransactionReply())
        assert not (await here.transactions.commit_transaction(request)).already_committed
        assert (await joined(here)).already_committed

    serve(scenario, tokens=True)


def test_an_abort_says_whether_there_was_anything_to_abort() -> None:
    async def scenario(here: Serving) -> None:
        first = await joined(here)
        request = co.AbortTransactionRequest(
            transactional_id="q",
            owner_run="run",
            txn_no=first.txn_no,
            token=co.CommitToken(app_id="app", batch_id=4),
            session_token=first.session_token,
        )
        assert [(await here.transactions.abort_transaction(request)).aborted for _ in range(2)] == [True, False]

    serve(scenario, tokens=True)


# ---------------------------------------------------------------- healing and operators


def resolve(name: co.TransactionName, known_epoch: int = 1, topic_id: str = USER_TOPIC_ID) -> Any:
    return co.ResolveTransactionRequest(
        txn_shard=name.txn_shard,
        txn_producer_id=name.txn_producer_id,
        txn_no=name.txn_no,
        topic_id=topic_id,
        known_coordinator_epoch=known_epoch,
    )


def test_a_leader_is_told_the_outcome_with_the_epoch_that_vouches_for_it() -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0)
        reply = await here.transactions.resolve_transaction(resolve(name))
        assert (reply.outcome, reply.coordinator_epoch) == (types_pb2.TRANSACTION_OUTCOME_ONGOING, 1)
        counts = [co.PartitionCount(topic_id=USER_TOPIC_ID, partition=0, records=7)]
        ending = co.EndTransactionRequest(name=name, outcome=COMMITTED, counts=counts)
        here.markers_wait = True
        await here.transactions.end_transaction(ending)
        reply = await here.transactions.resolve_transaction(resolve(name))
        here.markers_wait = False
        assert (reply.outcome, reply.expected_records, reply.has_winners) == (COMMITTED, 7, False)

    serve(scenario)


@pytest.mark.case("hole 6")
def test_who_knows_a_newer_owner_is_not_answered_by_an_older_one() -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0)
        with pytest.raises(errors.NotCoordinatorError, match="newer owner"):
            await here.transactions.resolve_transaction(resolve(name, known_epoch=2))
        with pytest.raises(errors.InvalidRequestError):
            await here.transactions.resolve_transaction(resolve(name, topic_id="x"))

    serve(scenario)


def test_a_list_says_which_shards_it_is_of_and_shows_no_runs_name() -> None:
    async def scenario(here: Serving) -> None:
        first = await joined(here)
        reply = await here.transactions.list_transactions(co.ListTransactionsRequest(shards=[first.txn_shard]))
        assert [(item.shard, item.epoch) for item in reply.answered] == [(first.txn_shard, 1)]
        (info,) = reply.transactions
        assert info.owner_run.startswith("sha256:"), "participants are known by it"
        none = await here.transactions.list_transactions(co.ListTransactionsRequest(states=["DEAD"]))
        assert (len(none.transactions), len(none.answered)) == (0, 3)
        with pytest.raises(errors.InvalidRequestError):
            await here.transactions.list_transactions(co.ListTransactionsRequest(states=["NONSENSE"]))

    serve(scenario, tokens=True)


def test_an_operator_aborts_what_is_open_and_hears_its_number() -> None:
    async def scenario(here: Serving) -> None:
        name = await enrolled(here, 0)
        request = co.ForceAbortRequest(transactional_id="t", txn_no=name.txn_no)
        assert (await here.transactions.force_abort(request)).txn_no == name.txn_no
        asked = co.GetOutcomeRequest(transactional_id="t", txn_no=name.txn_no)
        assert (await here.transactions.get_outcome(asked)).outcome == ABORTED
        assert (await here.transactions.force_abort(request)).txn_no == 0

    serve(scenario)


@pytest.mark.parametrize("name", ["", "x" * 1_025, "a\nb"])
def test_a_transactional_id_is_checked_where_it_comes_in(name: str) -> None:
    async def scenario(here: Serving) -> None:
        with pytest.raises(errors.OncelogError) as refusal:
            await here.transactions.get_outcome(co.GetOutcomeRequest(transactional_id=name, txn_no=1))
        assert not refusal.value.retriable

    serve(scenario)


@pytest.mark.parametrize("method", ["init_producer_id", "join_transaction", "commit_transaction", "abort_transaction"])
def test_a_client_begins_and_ends_nothing_under_the_id_of_a_scheduler(method: str) -> None:
    name = f"__delayed.{'a' * 32}.0"
    requests: dict[str, Any] = {
        "init_producer_id": co.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000),
        "join_transaction": co.JoinTransactionRequest(transactional_id=name),
        "commit_transaction": co.CommitTransactionRequest(transactional_id=name),
        "abort_transaction": co.AbortTransactionRequest(transactional_id=name),
    }

    async def scenario(here: Serving) -> None:
        token = CALL.set(CallInfo("10.0.0.7:1234", (), listeners.CLIENT))
        try:
            with pytest.raises(errors.TransactionalIdAuthorizationError):
                await getattr(here.transactions, method)(requests[method])
        finally:
            CALL.reset(token)

    serve(scenario)
