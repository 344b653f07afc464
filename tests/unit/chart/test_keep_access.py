"""The job that keeps users, roles and rules does what is declared, once, and says so."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from oncelog.client.admin.security_admin import AccessRule, AccessRules, Role, RoleBinding, RoleRule, UserListing
from oncelog.errors import AuthenticationError, InvalidRequestError, NetworkError

SCRIPT = Path(__file__).resolve().parents[3] / "helm" / "oncelog" / "files" / "scripts" / "keep_access.py"
BUILT_IN = Role("reader", (RoleRule("TOPIC", ("READ",)),), built_in=True)
DECLARED: dict[str, Any] = {
    "users": [],
    "roles": [{"name": "loader", "rules": [{"resourceType": "TOPIC", "operations": ["WRITE", "DESCRIBE"]}]}],
    "acls": [
        {"principals": ["User:web", "User:etl"], "operations": ["read"], "topics": ["a"], "groupPrefixes": ["g-"]},
        {"principals": ["User:web"], "role": "loader", "onPrefix": "shop."},
        {"principals": ["User:eve"], "operations": ["ALL"], "cluster": True, "deny": True, "host": "10.0.0.9"},
    ],
    "removeUndeclared": False,
}
WANTED_RULES = {
    AccessRule("User:web", "READ", "TOPIC", "a"),
    AccessRule("User:etl", "READ", "TOPIC", "a"),
    AccessRule("User:web", "READ", "GROUP", "g-", "PREFIXED"),
    AccessRule("User:etl", "READ", "GROUP", "g-", "PREFIXED"),
    AccessRule("User:eve", "ALL", "CLUSTER", "oncelog-cluster", "LITERAL", "DENY", "10.0.0.9"),
}
OLD = AccessRule("User:old", "READ", "TOPIC", "*")


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keep_access", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["keep_access"] = module
    spec.loader.exec_module(module)
    return module


class Admin:
    """What the script uses of `client.admin`, in memory."""

    def __init__(self) -> None:
        self.acls: set[AccessRule] = {OLD}
        self.bindings: set[RoleBinding] = set()
        self.roles = {"reader": BUILT_IN}
        self.passwords: dict[str, str] = {}
        self.changes = 0

    def list_acls(self) -> AccessRules:
        return AccessRules(tuple(self.acls), tuple(self.bindings), tuple(self.roles.values()))

    def create_acls(self, acls: Any = (), bindings: Any = (), roles: Any = ()) -> None:
        assert len(acls) + len(bindings) + len(roles) <= 100
        assert all(item.role in self.roles for item in bindings), "a role is there before somebody has it"
        self.acls |= set(acls)
        self.bindings |= set(bindings)
        self.roles |= {role.name: role for role in roles}
        self.changes += 1

    def delete_acls(self, acls: Any = (), bindings: Any = (), roles: Any = ()) -> int:
        self.acls -= set(acls)
        self.bindings -= set(bindings)
        for name in roles:
            del self.roles[name]
        self.changes += 1
        return 1

    def list_users(self) -> list[UserListing]:
        return [UserListing(name, 4096) for name in self.passwords]

    def create_user(self, name: str, password: str) -> None:
        assert name not in self.passwords
        self.set_password(name, password)

    def set_password(self, name: str, password: str) -> None:
        self.passwords[name] = password
        self.changes += 1

    def delete_user(self, name: str) -> bool:
        self.changes += 1
        return self.passwords.pop(name, None) is not None


def test_rules_and_roles_are_added_once_and_said(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    admin = Admin()
    script.keep_roles_and_rules(admin, DECLARED)
    assert admin.acls == WANTED_RULES | {OLD}
    assert admin.bindings == {RoleBinding("User:web", "loader", "shop.", "PREFIXED")}
    said = capsys.readouterr().out
    assert "role loader added" in said
    assert "added: User:web is loader on shop.*" in said
    assert "added: User:eve must not ALL CLUSTER oncelog-cluster from 10.0.0.9" in said
    assert "1 rules and 0 roles are not declared and stay" in said
    changes = admin.changes
    script.keep_roles_and_rules(admin, DECLARED)
    assert admin.changes == changes
    assert "6 rules and 1 roles were there already" in capsys.readouterr().out


def test_what_is_not_declared_goes_only_where_that_is_declared(script: ModuleType) -> None:
    admin = Admin()
    admin.roles["stale"] = Role("stale", BUILT_IN.rules)
    script.keep_roles_and_rules(admin, {**DECLARED, "removeUndeclared": True})
    assert admin.acls == WANTED_RULES
    assert set(admin.roles) == {"reader", "loader"}


def test_a_changed_role_is_changed(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    admin = Admin()
    admin.roles["loader"] = Role("loader", (RoleRule("TOPIC", ("WRITE",)),))
    script.keep_roles_and_rules(admin, DECLARED)
    assert set(admin.roles["loader"].rules[0].operations) == {"WRITE", "DESCRIBE"}
    assert "role loader changed" in capsys.readouterr().out
    reordered = replace(admin.roles["loader"].rules[0], operations=("DESCRIBE", "WRITE"))
    assert script.same_role(Role("loader", (reordered,)), admin.roles["loader"])


def test_many_rules_go_in_bundles(script: ModuleType) -> None:
    admin = Admin()
    names = [f"t{number}" for number in range(250)]
    script.keep_roles_and_rules(
        admin, {**DECLARED, "roles": [], "acls": [{"principals": ["User:a"], "operations": ["READ"], "topics": names}]}
    )
    assert len(admin.acls) == 251
    assert admin.changes == 3


def test_users_get_the_declared_password_and_keep_a_good_one(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = Admin()
    admin.passwords = {"bob": "good", "cid": "old", "dan": "stays"}
    monkeypatch.setattr(script, "is_good", lambda _servers, name, password: admin.passwords[name] == password)
    users = []
    for number, (name, password) in enumerate({"ann": "secret-a", "bob": "good", "cid": "new"}.items()):
        (tmp_path / str(number)).write_text(password + "\n", encoding="utf-8")
        users.append({"name": name, "passwordFile": str(tmp_path / str(number))})
    script.keep_users(admin, "host:1", {"users": users, "removeUndeclared": False})
    assert admin.passwords == {"ann": "secret-a", "bob": "good", "cid": "new", "dan": "stays"}
    assert admin.changes == 2
    said = capsys.readouterr().out
    assert all(word not in said for word in ("secret", "good"))
    for line in ("user ann added", "user cid has another password", "1 users are not declared"):
        assert line in said
    script.keep_users(admin, "host:1", {"users": users, "removeUndeclared": True})
    assert "dan" not in admin.passwords


def test_a_cluster_that_is_not_there_yet_is_waited_for_and_a_wrong_rule_is_not_tried_again(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "access.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(script, "_PAUSE_S", 0.0)
    answers: list[Exception | None] = [NetworkError("away"), AuthenticationError("keys are not read yet"), None]
    calls = []

    def keep(_declared: dict[str, Any]) -> None:
        calls.append(1)
        if (error := answers.pop(0)) is not None:
            raise error

    monkeypatch.setattr(script, "keep", keep)
    assert script.main([str(tmp_path / "access.json"), "--timeout", "60"]) == 0
    assert len(calls) == 3
    answers[:] = [InvalidRequestError("no such operation")]
    assert script.main([str(tmp_path / "access.json"), "--timeout", "60"]) == 1
    assert len(calls) == 4
