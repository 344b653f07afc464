"""Rules that derive a principal from a verified certificate, and the service that a certificate identifies.

Rule 1: rules look at values that the X.509 parser found (SAN URI, SAN DNS, attributes of the subject), one by one; a
        distinguished name is never parsed as text, so no `,` or `=` inside of a value can change the identity.
Rule 2: the first rule with a value that matches as a whole decides. A certificate that matches none has no principal,
        and its caller is refused: it is not anonymous, it is a caller that the rules do not know.
Rule 3: a certificate in which a rule matches several values has no principal either: which one was meant cannot be
        guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.errors import AuthenticationError, ConfigError, InvalidRequestError
from oncelog_runtime.core.security.acl import USER, check_principal

FIELDS: Final = ("uri", "dns", "cn", "ou", "o")
_PLACE: Final = re.compile(r"\$([0-9])")
_BROKER: Final = frozenset(
    {
        *("PartitionLeader.Ping", "PartitionLeader.GetMetadata", "PartitionLeader.ListOffsets"),
        *("PartitionLeader.Replicate", "PartitionLeader.SyncReplica", "PartitionLeader.ReplicaStatus"),
        *("PartitionLeader.ReportBroker", "PartitionLeader.Produce", "PartitionLeader.Fetch"),
        *("Coordinator.EnrolPartitions", "Coordinator.ResolveTransaction"),
        *("Channels.DescribeChannel", "Channels.DeleteChannel"),  # of ephemeral channels
        "PartitionLeader.DrainBroker",  # `oncelog node drain --self`, which a stopping container runs
    }
)
_COORDINATOR: Final = frozenset(
    {
        *("PartitionLeader.Produce", "PartitionLeader.Fetch", "PartitionLeader.ListOffsets"),
        *("PartitionLeader.WriteTxnMarkers", "Coordinator.WriteGroupMarkers", "Coordinator.EnrolPartitions"),
        *("Coordinator.ResolveTransaction", "PidAllocator.AllocateProducerIds"),
        *("Coordinator.DrainCoordinator", "PartitionLeader.DeleteRecords"),
    }
)
SERVICES: Final[dict[str, frozenset[str]]] = {
    "partition_leader": _BROKER,
    "coordinator": _COORDINATOR,
    "pid_allocator": frozenset(),
}
"""Service -> the methods of other services that it calls (a test compares this with the sources)."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The values of a verified certificate, by field."""

    values: Mapping[str, tuple[str, ...]]

    def of(self, name: str) -> tuple[str, ...]:
        """Returns the values of one field."""
        return self.values.get(name, ())


@dataclass(frozen=True, slots=True)
class CertificateRule:
    """One rule `field:pattern=>result`. The pattern (a regular expression) must match the whole value; `$1` is its
    first group.
    """

    field: str
    pattern: re.Pattern[str]
    result: str

    def results(self, facts: CertificateFacts) -> list[str]:
        """Returns the result for each value that matches."""
        fits = [self.pattern.fullmatch(value) for value in facts.of(self.field)]
        return [_PLACE.sub(lambda place, m=m: m.group(int(place[1])) or "", self.result) for m in fits if m]  # type: ignore[misc]


DEFAULT_RULES: Final = "uri:(.+)=>$1; dns:(.+)=>$1"


def parse_rules(text: str, setting: str) -> tuple[CertificateRule, ...]:
    """Parses rules between `;`. Raises `ConfigError` that names the setting."""
    rules = []
    for part in text.split(";"):
        if not part.strip():
            continue
        head, arrow, result = part.strip().rpartition("=>")
        name, colon, pattern = head.partition(":")
        if not arrow or not colon or name not in FIELDS or not result:
            raise ConfigError(
                f"{setting} has rules FIELD:PATTERN=>NAME between `;`, with a field of {', '.join(FIELDS)}",
                given=part.strip(),
            )
        rules.append(_rule(name, pattern, result.strip(), setting))
    return tuple(rules)


def _rule(name: str, pattern: str, result: str, setting: str) -> CertificateRule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{setting}: {pattern!r} is no regular expression: {error}") from None
    except (RecursionError, OverflowError):
        raise ConfigError(
            f"{setting}: a regular expression of {len(pattern)} characters is too deep to be read"
        ) from None
    if any(int(place) > compiled.groups for place in _PLACE.findall(result)):
        raise ConfigError(f"{setting}: {result!r} names a group that {pattern!r} does not have")
    return CertificateRule(name, compiled, result)


def principal_of(facts: CertificateFacts, rules: Iterable[CertificateRule]) -> str:
    """Returns `User:<name>`. Raises `AuthenticationError`, rules 2 and 3."""
    name = _result_of(facts, rules)
    if name is None:
        raise AuthenticationError(
            "the certificate names nobody: no rule of principal_rules fits it, or several values do"
        )
    try:
        return check_principal(USER + name, wildcard=False)
    except InvalidRequestError as error:
        raise AuthenticationError(f"the certificate names nobody: {error.message}") from None


def service_methods(facts: CertificateFacts | None, rules: Iterable[CertificateRule]) -> frozenset[str]:
    """Returns the methods that the certificate's service may call; none when it identifies no service."""
    name = _result_of(facts, rules) if facts is not None else None
    return SERVICES.get(name or "", frozenset())


def parse_service_rules(text: str, setting: str) -> tuple[CertificateRule, ...]:
    """Parses rules whose results are names of `SERVICES`. Raises `ConfigError`."""
    rules = parse_rules(text, setting)
    for rule in rules:
        if rule.result not in SERVICES:
            raise ConfigError(f"{setting} makes one of {', '.join(SERVICES)}", given=rule.result)
    return rules


def _result_of(facts: CertificateFacts, rules: Iterable[CertificateRule]) -> str | None:
    for rule in rules:
        results = rule.results(facts)
        if results:
            return results[0] if len(results) == 1 else None
    return None
