"""The values in etcd for access control, below one prefix, so that one watch has all of them at one revision.

    <root>/security/acls/<digest>        Acl          a rule; the same rule has the same key
    <root>/security/bindings/<digest>    Binding      a principal has a role
    <root>/security/roles/<name>         Role         one that is not built in
    <root>/security/users/<digest>       StoredUser   a user with a password, by the digest of the name
    <root>/security/quotas/<digest>      Quota        all limits of one subject, by its digest
    <root>/security/decoy                32 bytes     derives the salts given for unknown user names

Rule 1: no key holds text chosen by a client, except names of roles, which are `[a-z0-9._-]`.
Rule 2: a value that cannot be parsed is left out and logged, and affects no other.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from oncelog.core.malformed import MALFORMED, JsonObject
from oncelog.core.scram import Credential
from oncelog.errors import OncelogError
from oncelog_runtime.core.security.acl import Acl, acl_of, digest
from oncelog_runtime.core.security.quotas import Quota, quota_of
from oncelog_runtime.core.security.roles import Binding, Role, binding_of, role_of
from oncelog_runtime.metadata.cluster_keys import SECURITY

_log = logging.getLogger(__name__)

ACLS: Final = f"{SECURITY}acls/"
BINDINGS: Final = f"{SECURITY}bindings/"
ROLES: Final = f"{SECURITY}roles/"
USERS: Final = f"{SECURITY}users/"
QUOTAS: Final = f"{SECURITY}quotas/"
DECOY_KEY: Final = f"{SECURITY}decoy"
_VERSION: Final = 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user with a password; `mod_revision` distinguishes one password from the next."""

    name: str
    credential: Credential
    mod_revision: int = 0


@dataclass(slots=True)
class Stored:
    """All values, by key."""

    acls: dict[str, Acl] = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    users: dict[str, StoredUser] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    decoy: bytes = b""

    def enter(self, key: str, value: bytes | None, mod_revision: int) -> None:
        """Applies the change of one key; None = it was deleted."""
        if key == DECOY_KEY:
            self.decoy = value or b""
        elif key.startswith(ACLS):
            _enter(self.acls, key, value, acl_of)
        elif key.startswith(BINDINGS):
            _enter(self.bindings, key, value, binding_of)
        elif key.startswith(ROLES):
            _enter(self.roles, key, value, role_of)
        elif key.startswith(USERS):
            _enter(self.users, key, value, lambda values: _user_of(values, mod_revision))
        elif key.startswith(QUOTAS):
            _enter(self.quotas, key, value, quota_of)

    def roles_by_name(self) -> dict[str, Role]:
        """Returns the roles that are not built in."""
        return {role.name: role for role in self.roles.values()}

    def user(self, name: str) -> StoredUser | None:
        """Returns the user with this name."""
        return self.users.get(user_key(name))


def _enter(into: dict[str, T], key: str, value: bytes | None, decode: Callable[[JsonObject], T]) -> None:
    into.pop(key, None)
    if value is None:
        return
    try:
        into[key] = decode(json.loads(value))
    except (OncelogError, *MALFORMED) as error:
        _log.error("a value about access in etcd cannot be read and does not count: %s", error, extra={"key": key})


def encode(values: Mapping[str, object]) -> bytes:
    """Returns the value for etcd."""
    return json.dumps({"version": _VERSION, **values}, sort_keys=True, separators=(",", ":")).encode()


def acl_key(acl: Acl) -> str:
    """Returns the key of a rule."""
    return ACLS + acl.key


def binding_key(binding: Binding) -> str:
    """Returns the key of a binding."""
    return BINDINGS + binding.key


def role_key(name: str) -> str:
    """Returns the key of a role."""
    return ROLES + name


def user_key(name: str) -> str:
    """Returns the key of a user."""
    return USERS + digest(name)


def quota_key(subject: str) -> str:
    """Returns the key of a quota."""
    return QUOTAS + digest(subject)


def encode_user(user: StoredUser) -> bytes:
    """Returns the value for etcd: it contains no password, and none can be derived from it."""
    secret = user.credential
    return encode(
        {
            "name": user.name,
            "salt": b64encode(secret.salt).decode(),
            "iterations": secret.iterations,
            "stored_key": b64encode(secret.stored_key).decode(),
            "server_key": b64encode(secret.server_key).decode(),
        }
    )


def _user_of(values: JsonObject, mod_revision: int) -> StoredUser:
    credential = Credential(
        b64decode(values["salt"]),
        int(values["iterations"]),
        b64decode(values["stored_key"]),
        b64decode(values["server_key"]),
    )
    return StoredUser(str(values["name"]), credential, mod_revision)
