"""Administration of quotas: how much each principal may do; a part of `client.admin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog.client.admin.admin_base import AdminBase
from oncelog.v1 import security_pb2 as pb
from oncelog.wire import methods

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a subject by kind: `User:<name>`, `User:*` (each one), `Address:<IP>`, `Address:*`. -1: unlimited."""

    subject: str
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EffectiveLimit:
    """The limit of one kind. `limit` None: unlimited; `source`: the subject whose quota says so, empty = none does."""

    kind: str
    limit: int | None
    source: str


@dataclass(frozen=True, slots=True)
class QuotaDescription:
    """All limits of a subject, defaults among them."""

    subject: str
    limits: tuple[EffectiveLimit, ...]


class QuotaAdmin(AdminBase):
    """See the module. Changes need ALTER_CONFIGS on the cluster, looking needs DESCRIBE_CONFIGS."""

    async def set_quotas(self, quotas: Sequence[Quota]) -> None:
        """Sets these limits, of at most 100 subjects, all or none; others stay. Raises `InvalidRequestError`."""
        request = pb.AlterQuotasRequest()
        for quota in quotas:
            item = request.set.add(subject=quota.subject)
            for kind, limit in sorted(quota.limits.items()):
                item.limits.add(kind=kind, limit=limit)
        await self._caller.to_controller(methods.ALTER_QUOTAS, request, once=True)

    async def remove_quotas(self, subjects: Sequence[str], kinds: Sequence[str] = ()) -> int:
        """Takes limits of these kinds away (none named: all); the number of those that were there."""
        request = pb.AlterQuotasRequest()
        for subject in subjects:
            request.remove.add(subject=subject, kinds=kinds)
        return (await self._caller.to_controller(methods.ALTER_QUOTAS, request, once=True)).removed

    async def list_quotas(self) -> list[Quota]:
        """Returns the quotas that were set, by subject."""
        reply = await self._caller.to_any_broker(methods.LIST_QUOTAS, pb.ListQuotasRequest())
        return [Quota(item.subject, {limit.kind: limit.limit for limit in item.limits}) for item in reply.quotas]

    async def describe_quota(self, subject: str = "") -> QuotaDescription:
        """Returns the limits that hold for a subject; empty: for the caller, which every caller may ask."""
        request = pb.DescribeQuotaRequest(subject=subject)
        reply = await self._caller.to_any_broker(methods.DESCRIBE_QUOTA, request)
        limits = (
            EffectiveLimit(item.kind, None if item.limit == UNLIMITED else item.limit, item.source)
            for item in reply.limits
        )
        return QuotaDescription(reply.subject, tuple(limits))
