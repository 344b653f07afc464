"""Keep users, roles and access rules as a JSON file declares them, and say what was changed.

    python keep_access.py ACCESS.json [--timeout S]

Rule 1: it may run any number of times: what is there already is left alone, and said so.
Rule 2: a user whose declared password is not good any more gets the declared one; nobody else's links end.
Rule 3: what is there and not declared is counted, and taken away only where the file says `removeUndeclared`.
Rule 4: a cluster that is still starting is waited for, `--timeout` seconds in all; what it calls wrong is not tried again.
Rule 5: no password is ever printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oncelog.client.admin.security_admin import AccessRule, Role, RoleBinding, RoleRule
from oncelog.errors import AuthenticationError, InvalidRequestError, OncelogError
from oncelog.sync import Client

_PAUSE_S = 2.0
_TOGETHER_MAX = 100
_OPTIONS = ("security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "token_file")
_RESOURCES = {"topic": "TOPIC", "group": "GROUP", "transactionalId": "TRANSACTIONAL_ID", "appId": "TOKEN_APP_ID"}
_CLUSTER = ("CLUSTER", "LITERAL", "oncelog-cluster")


def options(*names: str) -> dict[str, Any]:
    """What the client is told beside the address, by the names that the command line uses."""
    given = {name: os.environ.get(f"ONCELOG_{name.upper()}", "") for name in names}
    return {name: value for name, value in given.items() if value}


# ---------------------------------------------------------------- what is declared


def rules_of(entry: dict[str, Any]) -> Iterator[AccessRule | RoleBinding]:
    """The rules, or bindings of a role, that one entry stands for."""
    for principal in entry["principals"]:
        if "role" in entry:
            pattern = "PREFIXED" if entry.get("onPrefix") else "LITERAL"
            yield RoleBinding(principal, entry["role"], entry.get("onPrefix") or entry.get("on") or "*", pattern)
            continue
        permission = "DENY" if entry.get("deny") else "ALLOW"
        for operation in entry["operations"]:
            for kind, pattern, name in resources_of(entry):
                host = entry.get("host") or "*"
                yield AccessRule(principal, operation.upper(), kind, name, pattern, permission, host)


def resources_of(entry: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(type, pattern, name) of each resource of an entry."""
    for key, kind in _RESOURCES.items():
        yield from ((kind, "LITERAL", name) for name in entry.get(f"{key}s", ()))
        yield from ((kind, "PREFIXED", name) for name in entry.get(f"{key}Prefixes", ()))
    if entry.get("cluster"):
        yield _CLUSTER


def role_of(entry: dict[str, Any]) -> Role:
    """A declared role."""
    rules = tuple(
        RoleRule(
            rule["resourceType"],
            tuple(rule["operations"]),
            rule.get("resourceName", ""),
            rule.get("patternType", "LITERAL" if rule.get("resourceName") else ""),
        )
        for rule in entry["rules"]
    )
    return Role(entry["name"], rules)


# ---------------------------------------------------------------- what is done about it


def keep_roles_and_rules(admin: Any, declared: dict[str, Any]) -> None:
    """Adds what is missing; takes away what is not declared, if that is declared."""
    wanted = list(dict.fromkeys(item for entry in declared["acls"] for item in rules_of(entry)))
    roles = [role_of(entry) for entry in declared["roles"]]
    there = admin.list_acls()
    known = {*there.acls, *there.bindings}
    own_roles = {role.name: role for role in there.roles if not role.built_in}
    changed = [role for role in roles if not same_role(role, own_roles.get(role.name))]
    missing = [item for item in wanted if item not in known]
    for role in changed:
        admin.create_acls(roles=[role])
        say(f"role {role.name} {'changed' if role.name in own_roles else 'added'}")
    for begin in range(0, len(missing), _TOGETHER_MAX):
        add(admin, missing[begin : begin + _TOGETHER_MAX])
    say(f"{len(wanted) - len(missing)} rules and {len(roles) - len(changed)} roles were there already")
    undeclared = [item for item in (*there.acls, *there.bindings) if item not in set(wanted)]
    remove(admin, undeclared, sorted(own_roles.keys() - {role.name for role in roles}), declared["removeUndeclared"])


def same_role(one: Role, other: Role | None) -> bool:
    """The order of rules and operations says nothing."""
    if other is None:
        return False

    def shape(role: Role) -> set[Any]:
        return {
            (rule.resource_type, frozenset(rule.operations), rule.resource_name, rule.pattern_type or "LITERAL")
            for rule in role.rules
        }

    return shape(one) == shape(other)


def add(admin: Any, items: list[AccessRule | RoleBinding]) -> None:
    """All of them, or none."""
    admin.create_acls(*split(items))
    for item in items:
        say(f"added: {shown(item)}")


def remove(admin: Any, items: list[AccessRule | RoleBinding], roles: list[str], is_wanted: bool) -> None:
    """What nobody declared."""
    if not (items or roles):
        return
    if not is_wanted:
        say(
            f"{len(items)} rules and {len(roles)} roles are not declared and stay (auth.removeUndeclared takes them away)"
        )
        return
    for begin in range(0, len(items), _TOGETHER_MAX):
        admin.delete_acls(*split(items[begin : begin + _TOGETHER_MAX]))
    if roles:
        admin.delete_acls(roles=roles)
    for item in items:
        say(f"removed: {shown(item)}")
    for name in roles:
        say(f"removed: role {name}")


def split(items: list[AccessRule | RoleBinding]) -> tuple[list[AccessRule], list[RoleBinding]]:
    """Rules and bindings, as the methods take them."""
    rules = [item for item in items if isinstance(item, AccessRule)]
    return rules, [item for item in items if isinstance(item, RoleBinding)]


def shown(item: AccessRule | RoleBinding) -> str:
    """One line for a person."""
    stars = f"{item.resource_name}*" if item.pattern_type == "PREFIXED" else item.resource_name
    if isinstance(item, RoleBinding):
        return f"{item.principal} is {item.role} on {stars}"
    word = "must not" if item.permission == "DENY" else "may"
    return f"{item.principal} {word} {item.operation} {item.resource_type} {stars} from {item.host}"


def keep_users(admin: Any, servers: str, declared: dict[str, Any]) -> None:
    """Users with their declared passwords."""
    there = {user.name for user in admin.list_users()}
    for entry in declared["users"]:
        name = entry["name"]
        password = Path(entry["passwordFile"]).read_text(encoding="utf-8").splitlines()[0]
        if name not in there:
            admin.create_user(name, password)
            say(f"user {name} added")
        elif is_good(servers, name, password):
            say(f"user {name} was there already, with this password")
        else:
            admin.set_password(name, password)
            say(f"user {name} has another password: what the old one let in has ended")
    undeclared = sorted(there - {entry["name"] for entry in declared["users"]})
    for name in undeclared if declared["removeUndeclared"] else ():
        admin.delete_user(name)
        say(f"user {name} removed")
    if undeclared and not declared["removeUndeclared"]:
        say(f"{len(undeclared)} users are not declared and stay (auth.removeUndeclared takes them away)")


def is_good(servers: str, name: str, password: str) -> bool:
    """The user proves this password."""
    tls = options("security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile")
    try:
        with Client(servers, client_id="keep-access", username=name, password=password, **tls) as client:
            client.admin.list_topics()
    except AuthenticationError:
        return False
    return True


def say(line: str) -> None:
    """One line of what was done."""
    print(line, flush=True)


def keep(declared: dict[str, Any]) -> None:
    """Everything once. Raises `OncelogError`."""
    servers = os.environ["ONCELOG_BOOTSTRAP_SERVERS"]
    with Client(servers, client_id="keep-access", **options(*_OPTIONS)) as client:
        keep_roles_and_rules(client.admin, declared)
        keep_users(client.admin, servers, declared)


def main(arguments: list[str] | None = None) -> int:
    """0 when everything is as declared."""
    parser = argparse.ArgumentParser(description="Keep users, roles and access rules as declared.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S")
    args = parser.parse_args(arguments)
    declared = json.loads(args.file.read_text(encoding="utf-8"))
    deadline = time.monotonic() + args.timeout
    while True:
        try:
            keep(declared)
        except OncelogError as error:
            print(f"not yet: {error.code.name}: {error}", file=sys.stderr, flush=True)
            if isinstance(error, InvalidRequestError) or time.monotonic() >= deadline:
                return 1
            time.sleep(_PAUSE_S)
        else:
            say("ok: all that is declared holds")
            return 0


if __name__ == "__main__":
    sys.exit(main())
