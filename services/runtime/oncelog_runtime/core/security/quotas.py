"""Quotas as they are set: who they are for, and which one counts for a caller.

Rule 1: a caller is `User:<name>`, or `Address:<IP>` when he did not say who he is. A quota of `User:*` or `Address:*` counts
        for each of them, by himself, for kinds of which he has none of his own: kind by kind, as in Kafka.
Rule 2: a `Quota` that exists is legal: `check_quota` refuses what would never count.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from oncelog.errors import InvalidRequestError
from oncelog_runtime.core.quota import UNLIMITED, Limits, QuotaKind
from oncelog_runtime.core.security.acl import ANONYMOUS, EVERYBODY, USER, WILDCARD, check_principal, digest, member

ADDRESS: Final = "Address:"
EVERY_ADDRESS: Final = ADDRESS + WILDCARD
LIMIT_MAX: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Quota:
    """All limits that were set for one subject; `UNLIMITED` lifts the default's."""

    subject: str
    limits: Mapping[QuotaKind, int] = field(hash=False)

    @property
    def key(self) -> str:
        """As `Acl.key`: one for each subject."""
        return digest(self.subject)

    def as_dict(self) -> dict[str, Any]:
        """For etcd."""
        return {"subject": self.subject, "limits": {str(kind): limit for kind, limit in self.limits.items()}}


def quota_of(values: dict[str, Any]) -> Quota:
    """From what `as_dict` made; kinds that a newer version knows are left out. Raises `InvalidRequestError`."""
    known = {str(kind): kind for kind in QuotaKind}
    limits = {known[word]: int(limit) for word, limit in values["limits"].items() if word in known}
    return check_quota(Quota(str(values["subject"]), limits))


def check_quota(quota: Quota) -> Quota:
    """Returns it; raises `InvalidRequestError`."""
    check_subject(quota.subject)
    for kind, limit in quota.limits.items():
        if limit != UNLIMITED and not 1 <= limit <= LIMIT_MAX:
            raise InvalidRequestError(
                f"a quota is 1 to {LIMIT_MAX}, or {UNLIMITED} for unlimited; to forbid something use `oncelog acl`",
                kind=str(kind),
                limit=limit,
            )
    return quota


def check_subject(subject: str) -> str:
    """`User:<name>`, `User:*`, `Address:<IP>` or `Address:*`. Raises `InvalidRequestError`."""
    if subject == ANONYMOUS:
        raise InvalidRequestError("who did not say who he is has the quota of his address: Address:<IP>, or Address:*")
    if subject.startswith(USER):
        return check_principal(subject)
    address = subject.removeprefix(ADDRESS)
    if not subject.startswith(ADDRESS) or (address != WILDCARD and not _is_address(address)):
        raise InvalidRequestError(
            "a quota is for User:<name>, User:*, Address:<IP> or Address:*", given=ascii(subject[:64])
        )
    return subject


def _is_address(text: str) -> bool:
    try:
        return str(ipaddress.ip_address(text)) == text
    except ValueError:
        return False


def kind_of(word: str) -> QuotaKind:
    """Raises `InvalidRequestError` with the kinds that there are."""
    return member(QuotaKind, word, "a quota's kind")


class QuotaTable:
    """Which limits hold for whom."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas = {quota.subject: quota.limits for quota in quotas if quota.limits}

    def __bool__(self) -> bool:
        return bool(self._quotas)

    def effective(self, subject: str) -> dict[QuotaKind, tuple[int, str]]:
        """(limit, whose quota says so) for each kind; (`UNLIMITED`, empty) where nobody's does."""
        default = EVERYBODY if subject.startswith(USER) else EVERY_ADDRESS
        found: dict[QuotaKind, tuple[int, str]] = {}
        for kind in QuotaKind:
            found[kind] = (UNLIMITED, "")
            for source in (subject, default):
                limit = self._quotas.get(source, {}).get(kind)
                if limit is not None:
                    found[kind] = (limit, source)
                    break
        return found

    def limits_of(self, subject: str) -> Limits:
        """What is limited."""
        return {kind: limit for kind, (limit, _) in self.effective(subject).items() if limit != UNLIMITED}
