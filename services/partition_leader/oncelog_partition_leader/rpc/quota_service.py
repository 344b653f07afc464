"""Remote methods by which operators set quotas: the methods of `Security` about how much a principal may do.

Rule: a change is one commit of the controller; it is in force in every process within moments, and in the controller before
        it answers, if access rules are on. Callers may look up their own limits, which they would find out anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncelog.errors import InvalidRequestError, MetadataUnavailableError, PolicyViolationError
from oncelog.types import Buffer
from oncelog.v1 import security_pb2 as pb
from oncelog.wire import methods
from oncelog_partition_leader.cluster.controller import Controller, require_controller
from oncelog_runtime.core.quota import UNLIMITED, QuotaKind
from oncelog_runtime.core.security.quotas import Quota, QuotaTable, check_quota, check_subject, kind_of
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, MetadataStore, Put, RpcServer
from oncelog_runtime.security import stored
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.security.gate import register
from oncelog_runtime.security.stored import Stored
from oncelog_runtime.serving.call_context import CALL
from oncelog_runtime.serving.once import Once
from oncelog_runtime.serving.quotas import subject_of

SUBJECTS_MAX: Final = 100
"""The most of one request: etcd limits the writes of one commit."""
STORED_MAX: Final = 10_000
_IN_FORCE_MS: Final = 5_000


class QuotaService:
    """The handlers of these methods. `security` None: access rules are off, and callers are not authenticated."""

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        controller: Controller,
        security: Authorizer | None,
        once: Once,
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._controller = controller
        self._security = security
        self._once = once

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.ALTER_QUOTAS, self.alter_quotas)
        register(server, methods.LIST_QUOTAS, self.list_quotas)
        register(server, methods.DESCRIBE_QUOTA, self.describe_quota)

    async def alter_quotas(
        self, request: pb.AlterQuotasRequest, _payload: Buffer
    ) -> tuple[pb.AlterQuotasReply, Buffer]:
        """Sets and removes quotas. Raises `InvalidRequestError` for the first item that is not legal."""
        require_controller(self._controller, self._view)
        removed = await self._once.run(request.call, self._controller.term, lambda: self._alter(request))
        return pb.AlterQuotasReply(removed=removed), b""

    async def _alter(self, request: pb.AlterQuotasRequest) -> int:
        if not 0 < len(request.set) + len(request.remove) <= SUBJECTS_MAX:
            raise InvalidRequestError(f"1 to {SUBJECTS_MAX} subjects at once", given=len(request.set))
        revisions, known = await self._stored()
        wanted = {quota.subject: dict(quota.limits) for quota in known.quotas.values()}
        before = {subject: dict(limits) for subject, limits in wanted.items()}
        removed = sum(_remove(wanted, item) for item in request.remove)
        for item in request.set:
            quota = _quota_from(item)
            wanted.setdefault(quota.subject, {}).update(quota.limits)
        if len(wanted) > STORED_MAX:
            raise PolicyViolationError(
                f"a cluster has quotas of at most {STORED_MAX} subjects; use User:* and Address:*"
            )
        changed = sorted(subject for subject in wanted if wanted[subject] != before.get(subject))
        await self._commit([Quota(subject, wanted[subject]) for subject in changed], revisions)
        return removed

    async def list_quotas(self, _request: pb.ListQuotasRequest, _payload: Buffer) -> tuple[pb.ListQuotasReply, Buffer]:
        """Lists all quotas that were set."""
        _, known = await self._stored()
        reply = pb.ListQuotasReply()
        for quota in sorted(known.quotas.values(), key=lambda quota: quota.subject):
            item = reply.quotas.add(subject=quota.subject)
            for kind, limit in sorted(quota.limits.items()):
                item.limits.add(kind=kind, limit=limit)
        return reply, b""

    async def describe_quota(
        self, request: pb.DescribeQuotaRequest, _payload: Buffer
    ) -> tuple[pb.DescribeQuotaReply, Buffer]:
        """Shows a subject's limits; an empty subject is the caller, who gets his limits without the quotas behind them."""
        call = CALL.get()
        own = subject_of(call) if call is not None else ""
        subject = check_subject(request.subject) if request.subject else own
        reply = pb.DescribeQuotaReply(subject=subject)
        _, known = await self._stored()
        for kind, (limit, source) in QuotaTable(known.quotas.values()).effective(subject).items():
            reply.limits.add(kind=kind, limit=limit if subject else UNLIMITED, source=source if request.subject else "")
        return reply, b""

    # ------------------------------------------------------------ etcd

    async def _stored(self) -> tuple[dict[str, int], Stored]:
        """Reads etcd; returns (mod revision of each key, the quotas)."""
        found, revisions = Stored(), {}
        for item in (await self._metadata.list(stored.QUOTAS)).items:
            found.enter(item.key, item.value, item.mod_revision)
            revisions[item.key] = item.mod_revision
        return revisions, found

    async def _commit(self, changed: Sequence[Quota], revisions: dict[str, int]) -> None:
        """Writes quotas, and removes those without limits. Raises `MetadataUnavailableError` at a concurrent change."""
        if not changed:
            return
        compares = [Compare(key, revisions.get(key, 0)) for key in map(_key, changed)]
        puts = [Put(_key(quota), stored.encode(quota.as_dict())) for quota in changed if quota.limits]
        result = await self._metadata.commit(compares, puts, [_key(quota) for quota in changed if not quota.limits])
        if not result.succeeded:
            raise MetadataUnavailableError("somebody else changed the same thing in the same moment: try again")
        if self._security is not None:
            await self._security.until(result.revision, _IN_FORCE_MS)


def _key(quota: Quota) -> str:
    return stored.quota_key(quota.subject)


def _remove(wanted: dict[str, dict[QuotaKind, int]], item: pb.QuotaRemoval) -> int:
    """Removes limits from `wanted`; returns how many of them existed."""
    limits = wanted.get(check_subject(item.subject), {})
    kinds = [kind_of(word) for word in item.kinds] or list(limits)
    return sum(limits.pop(kind, None) is not None for kind in kinds)


def _quota_from(item: pb.Quota) -> Quota:
    """Parses a quota. Raises `InvalidRequestError`."""
    limits = {kind_of(limit.kind): limit.limit for limit in item.limits}
    if len(limits) != len(item.limits) or not limits:
        raise InvalidRequestError("a quota names each kind once, and at least one", subject=ascii(item.subject[:64]))
    return check_quota(Quota(item.subject, limits))
