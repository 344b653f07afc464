"""What stands in etcd about access: one key for one thing, and a value that nobody can read harms nobody else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from oncelog.core.scram import make_credential
from oncelog_runtime.core.quota import QuotaKind
from oncelog_runtime.core.security.acl import Acl, Operation, PatternType, ResourceType
from oncelog_runtime.core.security.quotas import Quota
from oncelog_runtime.core.security.roles import Binding, Role, RoleRule
from oncelog_runtime.security.stored import (
    ACLS,
    DECOY_KEY,
    USERS,
    Stored,
    StoredUser,
    acl_key,
    binding_key,
    encode,
    encode_user,
    quota_key,
    role_key,
    user_key,
)

RULE = Acl("User:ann", ResourceType.TOPIC, PatternType.LITERAL, "orders", Operation.READ)
BINDING = Binding("User:ann", "auditor")
ROLE = Role("auditor", (RoleRule(ResourceType.TOPIC, (Operation.DESCRIBE,)),))
QUOTA = Quota("User:ann", {QuotaKind.REQUESTS: 5})
ANN = StoredUser("ann", make_credential("secret", b"salt" * 4, 4096), 7)
EVERYTHING: list[tuple[str, str, bytes, Any]] = [
    ("acls", acl_key(RULE), encode(RULE.as_dict()), RULE),
    ("bindings", binding_key(BINDING), encode(BINDING.as_dict()), BINDING),
    ("roles", role_key("auditor"), encode(ROLE.as_dict()), ROLE),
    ("users", user_key("ann"), encode_user(ANN), ANN),
    ("quotas", quota_key("User:ann"), encode(QUOTA.as_dict()), QUOTA),
]
each = pytest.mark.parametrize(("kind", "key", "value", "meaning"), EVERYTHING, ids=[row[0] for row in EVERYTHING])


@each
def test_what_is_written_is_read_under_its_key_and_goes_with_it(
    kind: str, key: str, value: bytes, meaning: Any
) -> None:
    stored = Stored()
    stored.enter(key, value, 7)
    assert getattr(stored, kind) == {key: meaning}
    assert key.startswith(f"/oncelog/security/{kind}/")
    stored.enter(key, None, 8)
    assert stored == Stored()


@each
@pytest.mark.parametrize("nonsense", [b"", b"\xff", b"[]", b"null", b"{}", b"[" * 100_000, b'{"version":1}'])
def test_a_value_that_cannot_be_read_does_not_count_and_is_reported(
    kind: str, key: str, value: bytes, meaning: Any, nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stored = Stored()
    stored.enter(key + "x", value, 6)
    stored.enter(key, value, 7)
    stored.enter(key, nonsense, 8)
    assert getattr(stored, kind) == {key + "x": replace(meaning, **({"mod_revision": 6} if kind == "users" else {}))}
    assert "cannot be read and does not count" in caplog.text


def test_no_key_holds_what_a_client_chose_but_names_of_roles() -> None:
    strange = "User:a/../\n\u202e"
    for key in (acl_key(replace(RULE, principal=strange)), user_key(strange), quota_key(strange)):
        assert key.startswith("/oncelog/security/")
        assert key.rpartition("/")[2].isalnum()
    assert acl_key(RULE) == acl_key(replace(RULE)) != acl_key(replace(RULE, host="10.0.0.1"))


def test_one_password_is_told_from_the_next_by_its_revision_and_none_is_stored() -> None:
    stored = Stored()
    stored.enter(user_key("ann"), encode_user(ANN), 9)
    found = stored.user("ann")
    assert found == replace(ANN, mod_revision=9)
    assert stored.user("bob") is None
    assert "secret" not in encode_user(ANN).decode()
    assert set(json.loads(encode_user(ANN))) == {"version", "name", "salt", "iterations", "stored_key", "server_key"}


def test_roles_are_known_by_their_names() -> None:
    stored = Stored()
    stored.enter(role_key("auditor"), encode(ROLE.as_dict()), 1)
    assert stored.roles_by_name() == {"auditor": ROLE}


def test_the_decoy_is_bytes_and_an_unknown_key_is_passed_over() -> None:
    stored = Stored()
    stored.enter(DECOY_KEY, b"\0" * 32, 1)
    assert stored.decoy == b"\0" * 32
    stored.enter(DECOY_KEY, None, 2)
    stored.enter("/oncelog/security/dreams/x", b"{}", 3)
    assert stored == Stored()


def test_keys_of_two_kinds_never_meet() -> None:
    assert len({row[1] for row in EVERYTHING}) == len(EVERYTHING)
    assert acl_key(RULE).removeprefix(ACLS) == RULE.key
    assert user_key("ann") == f"{USERS}{user_key('ann').rpartition('/')[2]}"
