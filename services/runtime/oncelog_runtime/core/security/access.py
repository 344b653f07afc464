"""Decides what one caller may do, and caches it: a repeated question costs one look into a dictionary.

Rule 1: answers follow the newest rules: `Policy` counts its changes, and a caller's cache from older rules is cleared.
Rule 2: the cache is bounded: at `REMEMBERED_MAX` answers it is cleared.
Rule 3: an unknown topic id is never cached: a topic with it may be created at any time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from oncelog_runtime.core.security.acl import Acl, Operation, ResourceType
from oncelog_runtime.core.security.matcher import Decision, Matcher, Rules
from oncelog_runtime.core.security.roles import Binding, Role, expand

REMEMBERED_MAX: Final = 10_000
CALLERS_MAX: Final = 4_096


class Decided(NamedTuple):
    """A decision of the rules: the caller, what it wanted to do, from where, and the outcome."""

    principal: str
    peer: str
    listener: str
    method: str
    operation: str
    resource_type: str
    resource: str
    allowed: bool
    reason: str


class AuditLog(Protocol):
    """Records decisions."""

    def record(self, decided: Decided) -> None:
        """Records a decision of the rules. Never raises, never waits."""
        ...

    def unauthenticated(self, *, peer: str, listener: str, code: str, reason: str) -> None:
        """Records that a caller's credentials were refused."""
        ...


def _no_topics(_topic_id: str) -> str | None:
    return None


class Policy:
    """Holds the rules in force in this process, and a cache of answers per caller."""

    def __init__(self, super_users: Iterable[str] = ()) -> None:
        self.super_users = tuple(super_users)
        self.generation = 0
        self.matcher = Matcher((), self.super_users)
        self.topic_name: Callable[[str], str | None] = _no_topics
        """Topic id -> name, None = unknown. The process sets it to its own source of names."""
        self.audit: AuditLog | None = None
        self._callers: OrderedDict[tuple[str, str], Access] = OrderedDict()

    def replace(self, acls: Iterable[Acl], bindings: Iterable[Binding], roles: Mapping[str, Role]) -> None:
        """Puts other rules in force."""
        expanded = [acl for binding in bindings for acl in expand(binding, roles)]
        self.matcher = Matcher([*acls, *expanded], self.super_users)
        self.generation += 1

    def access(self, principal: str, host: str) -> Access:
        """Returns the cache of this caller."""
        key = (principal, host)
        found = self._callers.get(key)
        if found is None:
            found = self._callers[key] = Access(self, principal, host)
            if len(self._callers) > CALLERS_MAX:
                self._callers.popitem(last=False)
        else:
            self._callers.move_to_end(key)
        return found


class Access:
    """The rights of one principal at one host."""

    __slots__ = ("_by_name", "_by_topic_id", "_generation", "_policy", "_rules", "host", "principal")

    def __init__(self, policy: Policy, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self._policy = policy
        self._generation = -1
        self._rules = Rules(())
        self._by_name: dict[tuple[Operation, ResourceType, str], bool] = {}
        self._by_topic_id: dict[Operation, dict[str, bool]] = {}

    @property
    def audit(self) -> AuditLog | None:
        """The log for decisions."""
        return self._policy.audit

    def look(self) -> None:
        """Clears answers of older rules. Called before the first question of each request."""
        if self._generation != self._policy.generation:
            self._generation = self._policy.generation
            self._rules = self._policy.matcher.rules_of(self.principal, self.host)
            self._by_name.clear()
            self._by_topic_id.clear()

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """True when the operation is allowed on the resource with this name."""
        key = (operation, resource_type, name)
        known = self._by_name.get(key)
        if known is None:
            if len(self._by_name) >= REMEMBERED_MAX:
                self._by_name.clear()
            known = self._by_name[key] = self._rules.decide(operation, resource_type, name).allowed
        return known

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """True when the operation is allowed on some resource of the type."""
        return self._rules.decide_any(operation, resource_type).allowed

    def remembered(self, operation: Operation) -> dict[str, bool]:
        """Returns topic id -> cached answer, for the hot path of batches."""
        return self._by_topic_id.setdefault(operation, {})

    def allows_topic(self, operation: Operation, topic_id: str) -> bool:
        """True when the operation is allowed on the topic with this id; False for an unknown id."""
        remembered = self.remembered(operation)
        known = remembered.get(topic_id)
        if known is None:
            name = self._policy.topic_name(topic_id)
            if name is None:
                return False
            if len(remembered) >= REMEMBERED_MAX:
                remembered.clear()
            known = remembered[topic_id] = self._rules.decide(operation, ResourceType.TOPIC, name).allowed
        return known

    def topic_name(self, topic_id: str) -> str | None:
        """Returns the name of a topic id, None = unknown."""
        return self._policy.topic_name(topic_id)

    def why(self, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        """Returns the decision with its reason, for the audit log and `CheckAcl`."""
        self.look()
        return self._rules.decide(operation, resource_type, name)
