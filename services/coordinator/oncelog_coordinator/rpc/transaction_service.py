"""The remote methods for transactions: wire messages in, commands to the right shard, wire messages out.

Rule 1: a request goes to the shard of its transactional id (or to the shard that it names, when a leader knows the
        transaction only from its log); a process that does not own that shard answers NotCoordinatorError.
Rule 2: answers to other services carry the shard's epoch; a request that knows a higher one is refused (hole 6).
Rule 3: every request of a session must show the session's token (`session_tokens`), before the core is asked. Beginning
        a session, or joining as a run's task, ends the transaction before it and needs no token: the right to use the
        transactional id covers that.
Rule 4: a handler changes nothing itself: it may be cancelled at any await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from oncelog.core.names import check_group_id, check_transactional_id
from oncelog.errors import InvalidRequestError, NotCoordinatorError, ResourceExhaustedError
from oncelog.types import Buffer
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from oncelog.wire.methods import Rep, Req
from oncelog_coordinator.core.decision import Command, Reply
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_state import ProducerIdNeededError
from oncelog_coordinator.effects.known_topics import KnownTopics
from oncelog_coordinator.rpc import wire
from oncelog_coordinator.rpc.shard_registry import NodeShards
from oncelog_coordinator.shard.pid_pool import PidPool
from oncelog_coordinator.shard.shard import Shard
from oncelog_runtime.metadata.cluster_keys import KIND_TXN
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.security.gate import handler_of
from oncelog_runtime.serving.quotas import Quotas
from oncelog_runtime.serving.session_tokens import SessionTokens
from oncelog_runtime.serving.topic_access import require_transactional_id

_LOOK_AGAIN_S: Final = 0.02


def register(server: RpcServer, spec: methods.MethodSpec[Req, Rep], call: Callable[[Req], Awaitable[Rep]]) -> None:
    """Registers one method; `handler_of` checks that the caller may use it."""

    async def serve(request: Req, _payload: Buffer) -> tuple[Rep, Buffer]:
        return await call(request), b""

    server.register(spec.name, handler_of(spec, serve))


class TransactionService:
    """Handles the calls about sessions, transactions and participants."""

    def __init__(
        self,
        shards: NodeShards,
        producer_ids: PidPool,
        visible_wait_max_ms: int,
        topics: KnownTopics,
        max_partitions: int,
        tokens: SessionTokens,
        quotas: Quotas,
    ) -> None:
        self._tokens = tokens
        self._quotas = quotas
        self._topics = topics
        self._max_partitions = max_partitions
        self._shards = shards
        self._producer_ids = producer_ids
        self._visible_wait_max_ms = visible_wait_max_ms

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.INIT_PRODUCER_ID, self.init_producer_id)
        register(server, methods.ENROL_PARTITIONS, self.enrol_partitions)
        register(server, methods.END_TRANSACTION, self.end_transaction)
        register(server, methods.GET_OUTCOME, self.get_outcome)
        register(server, methods.JOIN_TRANSACTION, self.join_transaction)
        register(server, methods.RENEW_TRANSACTION, self.renew_transaction)
        register(server, methods.COMMIT_TRANSACTION, self.commit_transaction)
        register(server, methods.ABORT_TRANSACTION, self.abort_transaction)
        register(server, methods.RESOLVE_TRANSACTION, self.resolve_transaction)
        register(server, methods.LIST_TRANSACTIONS, self.list_transactions)
        register(server, methods.DESCRIBE_TRANSACTION, self.describe_transaction)
        register(server, methods.FORCE_ABORT, self.force_abort)

    # ------------------------------------------------------------ routing

    def _shard(self, transactional_id: str) -> Shard:
        check_transactional_id(transactional_id)
        return self._shards.transaction_shard(transactional_id)

    def _shard_of_session(self, name: co.TransactionName) -> Shard:
        """Returns the shard of a transaction after checking the caller's session token."""
        shard = self._shard_of_name(name)
        self._tokens.require_session(
            name.transactional_id, name.txn_producer_id, name.producer_epoch, name.session_token
        )
        return shard

    def _require_session_of(self, shard: Shard, transactional_id: str, token: bytes) -> None:
        """Checks the token for calls that name only the transactional id. An unknown id has no session and needs no token."""
        txn_producer_id = self._shards.producer_id_of(shard, transactional_id)
        if txn_producer_id is not None:
            self._tokens.require_any_session(transactional_id, txn_producer_id, token)

    def _shard_of_name(self, name: co.TransactionName) -> Shard:
        if name.transactional_id:
            return self._shard(name.transactional_id)
        return self._shards.owned(KIND_TXN, name.txn_shard)

    async def _ask_with_id(
        self, shard: Shard, transactional_id: str, command_with: Callable[[int], Command[Reply]]
    ) -> Reply:
        """Returns the answer to a command that may create its transactional id, which then needs a producer id (0 =
        none given).

        Whether the id exists can change while producer ids are fetched, when the shard begins another epoch. Then the
        core refuses and the command is repeated with an id.
        """
        if self._shards.knows(shard, transactional_id):
            try:
                return await shard.ask(command_with(0))
            except ProducerIdNeededError:
                pass
        (fresh,) = await self._producer_ids.take(1)
        return await shard.ask(command_with(fresh))

    # ------------------------------------------------------------ clients

    async def init_producer_id(self, request: co.InitProducerIdRequest) -> co.InitProducerIdReply:
        """Gives a producer id; with a transactional id it begins a new session."""
        if not request.transactional_id:
            if request.transaction_timeout_ms:
                raise InvalidRequestError("a time-out needs a transactional id")
            (producer_id,) = await self._producer_ids.take(1)
            return co.InitProducerIdReply(producer_id=producer_id, session_token=self._tokens.of_producer(producer_id))
        require_transactional_id(request.transactional_id)
        shard = self._shard(request.transactional_id)
        self._quotas.use_transactional_id(request.transactional_id)
        command = cmd.InitProducerId(
            request.transactional_id,
            request.transaction_timeout_ms,
            wire.nonce(request.nonce),
            0,
            request.expected_producer_id,
            request.expected_producer_epoch,
        )
        reply = await self._ask_with_id(
            shard, request.transactional_id, lambda fresh: replace(command, fresh_producer_id=fresh)
        )
        return co.InitProducerIdReply(
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
            next_txn_no=reply.next_txn_no,
            txn_shard=shard.number,
            session_token=self._tokens.of_session(request.transactional_id, reply.producer_id, reply.producer_epoch),
        )

    async def enrol_partitions(self, request: co.EnrolPartitionsRequest) -> co.EnrolPartitionsReply:
        """Answers when the partitions are durably part of the transaction. Partitions that do not exist are refused
        before that.
        """
        if request.partitions and request.name.transactional_id:  # the batches that wait for this name the shard
            self._shards.require_shard_of(request.name.transactional_id, request.name.txn_shard)
        if len(request.partitions) + len(request.groups) > self._max_partitions:
            raise ResourceExhaustedError("too many partitions in one transaction", limit=self._max_partitions)
        shard = self._shard_of_session(request.name)
        partitions = tuple(wire.partition_id(item.topic_id, item.partition) for item in request.partitions)
        groups = tuple(check_group_id(group) for group in request.groups)
        await self._topics.require(partitions)
        epoch = shard.life.epoch
        await shard.ask(cmd.Enrol(wire.txn_name(request.name), partitions, groups))
        return co.EnrolPartitionsReply(coordinator_epoch=epoch)

    async def end_transaction(self, request: co.EndTransactionRequest) -> co.EndTransactionReply:
        """Decides the transaction; with VISIBLE it answers when every marker is committed, or says that they are not yet."""
        check_transactional_id(request.name.transactional_id)
        shard = self._shard_of_session(request.name)
        command = cmd.End(wire.txn_name(request.name), wire.is_commit(request.outcome), wire.counts(request.counts))
        reply = await shard.ask(command)
        visible = reply.visible
        if not visible and request.wait == co.END_WAIT_VISIBLE:
            visible = await self._wait_visible(shard, request.name.transactional_id, reply.txn_no)
        return co.EndTransactionReply(outcome=wire.outcome_of(reply.committed), visible=visible)

    async def _wait_visible(self, shard: Shard, transactional_id: str, txn_no: int) -> bool:
        """Has no await between a check and the wait after it, so no wake-up is missed. Raises `NotCoordinatorError`."""
        try:
            async with asyncio.timeout(self._visible_wait_max_ms / 1000):
                while True:
                    owned = self._shards.owned(KIND_TXN, shard.number)
                    if not owned.is_serving:
                        await asyncio.sleep(_LOOK_AGAIN_S)
                    elif self._shards.is_visible(owned, transactional_id, txn_no):
                        return True
                    else:
                        await self._shards.wait_visible(owned, transactional_id, txn_no)
        except TimeoutError:
            return False

    async def get_outcome(self, request: co.GetOutcomeRequest) -> co.GetOutcomeReply:
        """Returns the outcome of a transaction number."""
        shard = self._shard(request.transactional_id)
        reply = await shard.ask(cmd.GetOutcome(request.transactional_id, request.txn_no))
        outcome = wire.outcome_of(reply.committed) if reply.begun else types_pb2.TRANSACTION_OUTCOME_NOT_BEGUN
        return co.GetOutcomeReply(outcome=outcome, visible=reply.visible)

    # ------------------------------------------------------------ participants

    async def join_transaction(self, request: co.JoinTransactionRequest) -> co.JoinTransactionReply:
        """Adds a participant, or answers ALREADY_COMMITTED."""
        require_transactional_id(request.transactional_id)
        shard = self._shard(request.transactional_id)
        self._quotas.use_transactional_id(request.transactional_id)
        (own,) = await self._producer_ids.take(1)
        command = cmd.Join(
            transactional_id=request.transactional_id,
            owner_run=request.owner_run,
            batch=wire.batch_name(request.token, request.write_attempt),
            own_producer_id=own,
            lease_ms=request.lease_ms,
            max_duration_ms=request.max_duration_ms,
        )
        reply = await self._ask_with_id(
            shard, request.transactional_id, lambda fresh: replace(command, fresh_producer_id=fresh)
        )
        token = self._tokens.of_session(request.transactional_id, reply.txn_producer_id, reply.producer_epoch)
        return co.JoinTransactionReply(
            already_committed=reply.already_committed,
            committed_rows=reply.committed_rows,
            producer_id=reply.producer_id,
            producer_epoch=reply.producer_epoch,
            txn_producer_id=reply.txn_producer_id,
            txn_no=reply.txn_no,
            txn_shard=shard.number,
            session_token=b"" if reply.already_committed else token,
        )

    async def renew_transaction(self, request: co.RenewTransactionRequest) -> co.RenewTransactionReply:
        """Renews the lease of a transaction."""
        shard = self._shard_of_session(request.name)
        await shard.ask(cmd.Renew(wire.txn_name(request.name), request.owner_run))
        return co.RenewTransactionReply()

    async def commit_transaction(self, request: co.CommitTransactionRequest) -> co.CommitTransactionReply:
        """Commits for all participants in one decision."""
        require_transactional_id(request.transactional_id)
        shard = self._shard(request.transactional_id)
        if request.txn_no:  # 0: no task has joined, so no session token was given
            self._require_session_of(shard, request.transactional_id, request.session_token)
        command = cmd.Commit(
            transactional_id=request.transactional_id,
            owner_run=request.owner_run,
            txn_no=request.txn_no,
            batch=wire.batch_name(request.token, request.write_attempt),
            winners=tuple(wire.winner(item) for item in request.winners),
            token_expires=request.token.expires,
        )
        if request.txn_no:
            reply = await shard.ask(command)
        else:
            reply = await self._ask_with_id(
                shard, request.transactional_id, lambda fresh: replace(command, fresh_producer_id=fresh)
            )
        if request.wait == co.END_WAIT_VISIBLE:
            for number in reply.waits_for:
                if not await self._wait_visible(shard, request.transactional_id, number):
                    break
        return co.CommitTransactionReply(
            already_committed=reply.already_committed, committed_rows=reply.committed_rows, txn_no=reply.txn_no
        )

    async def abort_transaction(self, request: co.AbortTransactionRequest) -> co.AbortTransactionReply:
        """Aborts the transaction if it is still open; succeeds in any case."""
        require_transactional_id(request.transactional_id)
        shard = self._shard(request.transactional_id)
        self._require_session_of(shard, request.transactional_id, request.session_token)
        command = cmd.Abort(
            request.transactional_id, request.owner_run, request.txn_no, request.token.app_id, request.token.batch_id
        )
        return co.AbortTransactionReply(aborted=await shard.ask(command))

    # ------------------------------------------------------------ healing and operators

    async def resolve_transaction(self, request: co.ResolveTransactionRequest) -> co.ResolveTransactionReply:
        """Answers the outcome of a transaction that is still open at the caller."""
        shard = self._shards.owned(KIND_TXN, request.txn_shard)
        epoch = shard.life.epoch
        if request.known_coordinator_epoch > epoch:
            raise NotCoordinatorError("a newer owner of this shard is known", shard=shard.name)
        if request.topic_id:
            wire.partition_id(request.topic_id, request.partition)
        command = cmd.Resolve(request.txn_producer_id, request.txn_no, request.topic_id, request.partition)
        reply = await shard.ask(command)
        return co.ResolveTransactionReply(
            outcome=wire.outcome_of(reply.committed),
            coordinator_epoch=epoch,
            has_winners=reply.winners is not None,
            winners=reply.winners or (),
            expected_records=reply.expected_records,
            session_epoch=reply.session_epoch,
        )

    async def list_transactions(self, request: co.ListTransactionsRequest) -> co.ListTransactionsReply:
        """Lists the ids of the requested shards that serve here; the reply names those shards."""
        wanted = wire.states(request.states)
        reply = co.ListTransactionsReply()
        async for shard, epoch, views in self._shards.ask_each(KIND_TXN, request.shards, cmd.ListIds(wanted)):
            reply.transactions.extend(
                wire.transaction_info(self._shown(view), self._shards.address, shard, self._shards.topic_names)
                for view in views
            )
            reply.answered.add(shard=shard, epoch=epoch)
        return reply

    def _shown(self, view: cmd.TransactionView) -> cmd.TransactionView:
        return replace(view, owner_run=self._tokens.shown_run(view.owner_run))

    async def describe_transaction(self, request: co.DescribeTransactionRequest) -> co.DescribeTransactionReply:
        """Describes one id."""
        shard = self._shard(request.transactional_id)
        view = await shard.ask(cmd.Describe(request.transactional_id))
        info = wire.transaction_info(self._shown(view), self._shards.address, shard.number, self._shards.topic_names)
        return co.DescribeTransactionReply(transaction=info)

    async def force_abort(self, request: co.ForceAbortRequest) -> co.ForceAbortReply:
        """Aborts the open transaction, or the one that is named."""
        shard = self._shard(request.transactional_id)
        command = cmd.ForceAbort(request.transactional_id, request.txn_no)
        return co.ForceAbortReply(txn_no=await shard.ask(command))
