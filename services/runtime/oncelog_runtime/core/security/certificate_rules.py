"""Rules that make a principal of a verified certificate, and the service that a certificate speaks for.

Rule 1: rules look at values that the X.509 parser found (SAN URI, SAN DNS, attributes of the subject), one by one; nobody
        takes a distinguished name apart, so no `,` or `=` inside of a value can change who somebody is.
Rule 2: the first rule with a value that fits as a whole decides. A certificate that fits none names nobody, and its
        caller is refused: he is not anonymous, he is somebody whom the rules do not know.
Rule 3: a certificate in which a rule fits several values names nobody either: which one was meant is not ours to guess.
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
        "PartitionLeader.DrainBroker",  # `oncelog node drain --self`, which a stopping container runs
    }
)
_COORDINATOR: Final = frozenset(
    {
        *("PartitionLeader.Produce", "PartitionLeader.Fetch", "PartitionLeader.ListOffsets"),
        *("PartitionLeader.WriteTxnMarkers", "Coordinator.WriteGroupMarkers", "Coordinator.EnrolPartitions"),
        *("Coordinator.ResolveTransaction", "PidAllocator.AllocateProducerIds"),
        "Coordinator.DrainCoordinator",
    }
)
SERVICES: Final[dict[str, frozenset[str]]] = {
    "partition_leader": _BROKER,
    "coordinator": _COORDINATOR,
    "pid_allocator": frozenset(),
}
"""Service -> what it calls of others (a test compares with the sources)."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a verified certificate says, by field."""

    values: Mapping[str, tuple[str, ...]]

    def of(self, name: str) -> tuple[str, ...]:
        """Its values of one field."""
        return self.values.get(name, ())


@dataclass(frozen=True, slots=True)
class CertificateRule:
    """`field:pattern=>result`. The pattern (a regular expression) must fit the whole value; `$1` is its first group."""

    field: str
    pattern: re.Pattern[str]
    result: str

    def results(self, facts: CertificateFacts) -> list[str]:
        """What it makes of the values that fit."""
        fits = [self.pattern.fullmatch(value) for value in facts.of(self.field)]
        return [_PLACE.sub(lambda place, m=m: m.group(int(place[1])) or "", self.result) for m in fits if m]  # type: ignore[misc]


DEFAULT_RULES: Final = "uri:(.+)=>$1; dns:(.+)=>$1"


def parse_rules(text: str, setting: str) -> tuple[CertificateRule, ...]:
    """Rules between `;`. Raises `ConfigError` that names the setting."""
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
    if any(int(place) > compiled.groups for place in _PLACE.findall(result)):
        raise ConfigError(f"{setting}: {result!r} names a group that {pattern!r} does not have")
    return CertificateRule(name, compiled, result)


def principal_of(facts: CertificateFacts, rules: Iterable[CertificateRule]) -> str:
    """`User:<name>`. Raises `AuthenticationError`, rules 2 and 3."""
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
    """What the service that a certificate speaks for may call; nothing when it speaks for none."""
    name = _result_of(facts, rules) if facts is not None else None
    return SERVICES.get(name or "", frozenset())


def parse_service_rules(text: str, setting: str) -> tuple[CertificateRule, ...]:
    """As `parse_rules`; the results are names of `SERVICES`. Raises `ConfigError`."""
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
