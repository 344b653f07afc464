"""Quotas as they are configured: their subjects, and which one applies to a caller.

Rule 1: a caller is `User:<name>`, or `Address:<IP>` without authentication. A quota of `User:*` or `Address:*` applies
        to each of them separately, for kinds in which it has none of its own: kind by kind, as in Kafka.
Rule 2: a `Quota` that exists is legal: `check_quota` refuses one that would never apply.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from oncelog.core.malformed import JsonObject
from oncelog.errors import InvalidRequestError
from oncelog_runtime.core.quota import UNLIMITED, Limits, QuotaKind
from oncelog_runtime.core.security.acl import ANONYMOUS, EVERYBODY, USER, WILDCARD, check_principal, digest, member

ADDRESS: Final = "Address:"
EVERY_ADDRESS: Final = ADDRESS + WILDCARD
LIMIT_MAX: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Quota:
    """All limits that were set for one subject; `UNLIMITED` overrides the default's."""

    subject: str
    limits: Mapping[QuotaKind, int] = field(hash=False)

    @property
    def key(self) -> str:
        """A digest of the subject, like `Acl.key`."""
        return digest(self.subject)

    def as_dict(self) -> dict[str, object]:
        """Returns the fields, for etcd."""
        return {"subject": self.subject, "limits": {str(kind): limit for kind, limit in self.limits.items()}}


def quota_of(values: JsonObject) -> Quota:
    """Builds a quota from the result of `as_dict`; kinds of a newer version are dropped. Raises `InvalidRequestError`."""
    known = {str(kind): kind for kind in QuotaKind}
    limits = {known[word]: int(limit) for word, limit in values["limits"].items() if word in known}
    return check_quota(Quota(str(values["subject"]), limits))


def check_quota(quota: Quota) -> Quota:
    """Returns the quota, or raises `InvalidRequestError`."""
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
    """Accepts `User:<name>`, `User:*`, `Address:<IP>` or `Address:*`. Raises `InvalidRequestError`."""
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
    """Returns the kind with this name. Raises `InvalidRequestError` with the legal kinds."""
    return member(QuotaKind, word, "a quota's kind")


class QuotaTable:
    """Finds the limits that apply to a subject."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas = {quota.subject: quota.limits for quota in quotas if quota.limits}

    def __bool__(self) -> bool:
        return bool(self._quotas)

    def effective(self, subject: str) -> dict[QuotaKind, tuple[int, str]]:
        """Returns (limit, subject that it was set for) of each kind; (`UNLIMITED`, empty) when none was set."""
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
        """Returns the limits that apply to a subject."""
        return {kind: limit for kind, (limit, _) in self.effective(subject).items() if limit != UNLIMITED}
