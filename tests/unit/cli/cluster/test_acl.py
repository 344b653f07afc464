"""`oncelog acl`: flags become rules or a role, never both; a check's answer is the exit code."""

from __future__ import annotations

import pytest

from oncelog.v1 import security_pb2 as pb
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import FakeCluster


def rules(cluster: FakeCluster, method: str) -> list[tuple[str, ...]]:
    (request,) = cluster.requests(method)
    return [
        (a.principal, a.operation, a.resource_type, a.pattern_type, a.resource_name, a.permission, a.host)
        for a in request.acls
    ]


@pytest.fixture(autouse=True)
def answers(cluster: FakeCluster) -> None:
    cluster.answers |= {"CreateAcls": pb.CreateAclsReply(), "DeleteAcls": pb.DeleteAclsReply(deleted=1)}


def test_each_principal_gets_each_operation_on_each_resource(cluster: FakeCluster, oncelog: Oncelog) -> None:
    words = "--principal User:a --principal User:b --operation read --topic orders --group-prefix g. --cluster"
    said = oncelog("acl", "add", *words.split())
    assert (said.code, said.out) == (0, "6 added\n")
    expected = [("TOPIC", "LITERAL", "orders"), ("GROUP", "PREFIXED", "g."), ("CLUSTER", "LITERAL", "oncelog-cluster")]
    assert rules(cluster, "CreateAcls") == [
        (principal, "READ", *resource, "ALLOW", "*") for principal in ("User:a", "User:b") for resource in expected
    ]


def test_a_rule_may_forbid_and_hold_for_one_address(cluster: FakeCluster, oncelog: Oncelog) -> None:
    oncelog(
        *["acl", "add", "--principal", "User:eve", "--operation", "ALL", "--topic", "*", "--deny", "--host", "10.0.0.1"]
    )
    assert rules(cluster, "CreateAcls") == [("User:eve", "ALL", "TOPIC", "LITERAL", "*", "DENY", "10.0.0.1")]


@pytest.mark.parametrize(
    ("words", "binding"),
    [
        ("", ("LITERAL", "*")),
        ("--on shop", ("LITERAL", "shop")),
        ("--on-prefix shop.", ("PREFIXED", "shop.")),
    ],
)
def test_a_role_holds_on_all_or_on_what_is_named(
    cluster: FakeCluster, oncelog: Oncelog, words: str, binding: tuple[str, str]
) -> None:
    assert oncelog(*f"acl add --principal User:etl --role writer {words}".split()).code == 0
    (request,) = cluster.requests("CreateAcls")
    (found,) = request.bindings
    assert (found.principal, found.role, found.pattern_type, found.resource_name) == ("User:etl", "writer", *binding)
    assert list(request.acls) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "give --operation and a resource"),
        ("--operation READ", "give --operation and a resource"),
        ("--topic t", "give --operation and a resource"),
        ("--operation READ --topic t --on x", "--on and --on-prefix go with --role"),
        ("--role r --operation READ", "a --role goes with --on or --on-prefix alone"),
        ("--role r --topic t", "a --role goes with --on or --on-prefix alone"),
        ("--role r --deny", "a --role goes with --on or --on-prefix alone"),
        ("--role r --host 10.0.0.1", "a --role goes with --on or --on-prefix alone"),
        ("--role r --on a --on-prefix b", "a --role goes with --on or --on-prefix alone"),
    ],
)
@pytest.mark.parametrize("verb", ["add", "remove"])
def test_flags_that_do_not_go_together_ask_nobody(
    cluster: FakeCluster, oncelog: Oncelog, verb: str, words: str, says: str
) -> None:
    said = oncelog("acl", verb, "--principal", "User:a", *words.split())
    assert said.code == 2
    assert says in said.err
    assert cluster.calls == []


@pytest.mark.parametrize(("deleted", "code"), [(1, 0), (0, 1)])
def test_removing_what_was_not_there_is_exit_code_1(
    cluster: FakeCluster, oncelog: Oncelog, deleted: int, code: int
) -> None:
    cluster.answers["DeleteAcls"] = pb.DeleteAclsReply(deleted=deleted)
    said = oncelog(*["acl", "remove", "--principal", "User:a", "--operation", "READ", "--topic", "a", "--topic", "b"])
    assert (said.code, said.out) == (code, f"{deleted} of 2 were there and are removed\n")


def test_a_list_is_of_one_principal_or_of_roles(cluster: FakeCluster, oncelog: Oncelog) -> None:
    reply = pb.ListAclsReply()
    for name in ("User:a", "User:b"):
        reply.acls.add(principal=name, operation="READ", resource_type="TOPIC", resource_name="t", permission="ALLOW")
        reply.bindings.add(principal=name, role="writer", resource_name="*")
    reply.roles.add(name="writer", built_in=True).rules.add(resource_type="TOPIC", operations=["READ", "WRITE"])
    cluster.answers["ListAcls"] = reply
    found = oncelog(*["acl", "list", "--principal", "User:b", "--format", "json"]).data
    assert [acl["principal"] for acl in found["acls"]] == ["User:b"]
    assert [item["principal"] for item in found["bindings"]] == ["User:b"]
    assert oncelog("acl", "list", "--roles").table[1] == ["writer", "TOPIC", "READ,", "WRITE", "-"]
    assert "User:a" in oncelog("acl", "list").out


@pytest.mark.parametrize(("allowed", "code", "word"), [(True, 0, "is allowed"), (False, 1, "is not allowed")])
def test_a_check_says_yes_or_no_with_the_reason(
    cluster: FakeCluster, oncelog: Oncelog, allowed: bool, code: int, word: str
) -> None:
    cluster.answers["CheckAcl"] = pb.CheckAclReply(allowed=allowed, principal="User:web", reason="a rule")
    said = oncelog(*["acl", "check", "alter", "--cluster", "--principal", "User:web"])
    assert (said.code, said.out) == (code, f"User:web: ALTER on CLUSTER oncelog-cluster {word} (a rule)\n")


@pytest.mark.parametrize("words", ["", "--topic a --topic b", "--topic a --cluster"])
def test_a_check_is_about_one_resource(cluster: FakeCluster, oncelog: Oncelog, words: str) -> None:
    said = oncelog("acl", "check", "READ", *words.split())
    assert (said.code, cluster.calls) == (2, [])
    assert "name one resource" in said.err
