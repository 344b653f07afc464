"""The vocabulary of access: resources, operations, and one rule (ACL) about them, with Kafka's names and meanings.

Rule 1: an `Acl` that exists is legal: `check_acl` refuses what would match nothing, or more than its author thinks.
Rule 2: the one wildcard is `*` alone: as a literal name, as a host, and as the principal `User:*`.
Rule 3: a name is compared as it is, character by character: nothing is folded, normalised or parsed.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, TypeVar

from oncelog.core.malformed import JsonObject
from oncelog.core.names import TOPIC_CHARACTERS_MAX, check_topic_name
from oncelog.errors import InvalidRequestError, InvalidTopicError

E = TypeVar("E", bound=StrEnum)


class ResourceType(StrEnum):
    """The type of a resource. TOKEN_APP_ID: the `app_id` of a commit token, under which Spark makes writes idempotent."""

    CLUSTER = "CLUSTER"
    TOPIC = "TOPIC"
    GROUP = "GROUP"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    TOKEN_APP_ID = "TOKEN_APP_ID"


class PatternType(StrEnum):
    """How a rule's name is compared with a resource."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class Operation(StrEnum):
    """The operation that a rule allows or denies."""

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"
    ALL = "ALL"


class Permission(StrEnum):
    """Whether a rule allows or denies; DENY wins."""

    ALLOW = "ALLOW"
    DENY = "DENY"


WILDCARD: Final = "*"
USER: Final = "User:"
EVERYBODY: Final = USER + WILDCARD
ANONYMOUS: Final = USER + "ANONYMOUS"
CLUSTER_NAME: Final = "oncelog-cluster"
_NAME_CHARACTERS_MAX: Final = 1024
_PRINCIPAL_CHARACTERS_MAX: Final = 512

_O = Operation
LEGAL: Final[dict[ResourceType, frozenset[Operation]]] = {
    ResourceType.CLUSTER: frozenset(
        {
            *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
            *(_O.IDEMPOTENT_WRITE, _O.ALL),
        }
    ),
    ResourceType.TOPIC: frozenset(
        {
            *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
            _O.ALL,
        }
    ),
    ResourceType.GROUP: frozenset({_O.READ, _O.DELETE, _O.DESCRIBE, _O.ALL}),
    ResourceType.TRANSACTIONAL_ID: frozenset({_O.WRITE, _O.DESCRIBE, _O.ALL}),
    ResourceType.TOKEN_APP_ID: frozenset({_O.WRITE, _O.DESCRIBE, _O.ALL}),
}
"""Operations that some method requires; a rule about another one would have no effect."""

_IMPLIED_BY: Final[dict[Operation, frozenset[Operation]]] = {
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER, _O.ALL}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.ALL}),
}


def allowed_by(operation: Operation) -> frozenset[Operation]:
    """Returns the operations whose ALLOW includes this one. A DENY denies just its own operation, or with ALL every one."""
    return _IMPLIED_BY.get(operation, frozenset({operation, Operation.ALL}))


@dataclass(frozen=True, slots=True)
class Acl:
    """One access rule."""

    principal: str
    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = WILDCARD

    @property
    def key(self) -> str:
        """A digest as key: equal rules have equal keys, and the key holds no character of the rule's own."""
        return digest(self.as_dict())

    def as_dict(self) -> dict[str, str]:
        """Returns the fields, for etcd and people."""
        return {name: str(getattr(self, name)) for name in self.__slots__}

    def __str__(self) -> str:
        where = "" if self.host == WILDCARD else f" from {self.host}"
        return (
            f"{self.permission} {self.principal}{where} {self.operation} on {self.resource_type} "
            f"{self.pattern_type} {self.resource_name!r}"
        )


def acl_of(values: JsonObject) -> Acl:
    """Builds a rule from the result of `as_dict`. Raises `InvalidRequestError` or `KeyError`."""
    return check_acl(
        Acl(
            principal=str(values["principal"]),
            resource_type=member(ResourceType, values["resource_type"], "resource type"),
            pattern_type=member(PatternType, values["pattern_type"], "pattern type"),
            resource_name=str(values["resource_name"]),
            operation=member(Operation, values["operation"], "operation"),
            permission=member(Permission, values["permission"], "permission"),
            host=str(values["host"]),
        )
    )


def digest(values: object) -> str:
    """Returns a name for a value: 32 hex digits."""
    return sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def member(kind: type[E], word: str, what: str) -> E:
    """Returns the member of an enumeration. Raises `InvalidRequestError` with the legal words."""
    try:
        return kind(word)
    except ValueError:
        raise InvalidRequestError(f"{what} is one of {', '.join(kind)}", given=ascii(str(word)[:64])) from None


# ---------------------------------------------------------------- checks


def check_acl(acl: Acl) -> Acl:
    """Returns the rule, or raises `InvalidRequestError`."""
    check_principal(acl.principal)
    check_host(acl.host)
    check_operation(acl.resource_type, acl.operation)
    check_pattern(acl.resource_type, acl.pattern_type, acl.resource_name)
    return acl


def check_principal(principal: str, *, wildcard: bool = True) -> str:
    """Accepts `User:<name>`, and `User:*` where `wildcard`. Raises `InvalidRequestError`."""
    name = principal.removeprefix(USER)
    fits = principal.startswith(USER) and is_printable(name, _PRINCIPAL_CHARACTERS_MAX)
    if not fits or (WILDCARD in name and not (wildcard and name == WILDCARD)):
        raise InvalidRequestError(
            "a principal is User:<name> with printable characters"
            + (", or User:* for every principal" if wildcard else ", without *"),
            given=ascii(principal[:64]),
        )
    return principal


def is_printable(text: str, characters_max: int = _NAME_CHARACTERS_MAX) -> bool:
    """True for text that is not empty, not too long, has no control characters or line ends, and no blank at either end."""
    return 0 < len(text) <= characters_max and text.isprintable() and text == text.strip()


def check_host(host: str) -> str:
    """Accepts an IP address in its canonical form, or `*`. Raises `InvalidRequestError`."""
    try:
        if host == WILDCARD or str(ipaddress.ip_address(host)) == host:
            return host
    except ValueError:
        pass
    raise InvalidRequestError("a host is an IP address in its usual form, or *", given=ascii(host[:64]))


def check_operation(resource_type: ResourceType, operation: Operation) -> None:
    """Raises `InvalidRequestError` for an operation that no method requires on such a resource."""
    if operation not in LEGAL[resource_type]:
        raise InvalidRequestError(
            f"operations on {resource_type} are {', '.join(sorted(LEGAL[resource_type]))}", given=operation
        )


def check_pattern(resource_type: ResourceType, pattern_type: PatternType, name: str) -> None:
    """Raises `InvalidRequestError` for a pattern that matches nothing, or that looks as if it matched more than it does."""
    if resource_type is ResourceType.CLUSTER:
        if name != CLUSTER_NAME or pattern_type is not PatternType.LITERAL:
            raise InvalidRequestError(f"the cluster's name is {CLUSTER_NAME}, LITERAL", given=ascii(name[:64]))
        return
    if name == WILDCARD and pattern_type is PatternType.LITERAL:
        return
    if WILDCARD in name:
        raise InvalidRequestError("* stands alone, for every name; use PREFIXED for names that begin alike", name=name)
    if not is_printable(name):
        raise InvalidRequestError("a resource's name is printable and not empty", given=ascii(name[:64]))
    if resource_type is ResourceType.TOPIC:
        _check_topic(pattern_type, name)


def _check_topic(pattern_type: PatternType, name: str) -> None:
    fill = "x" if pattern_type is PatternType.PREFIXED and len(name) < TOPIC_CHARACTERS_MAX else ""
    try:
        check_topic_name(name + fill)
    except InvalidTopicError as error:
        raise InvalidRequestError(f"no topic can have this name: {error.message}", given=ascii(name[:64])) from None
