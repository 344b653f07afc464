"""Rules, roles and users arrive as they were given; a password stays at home, and only its proof is sent."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from oncelog import errors
from oncelog.client.admin.security_admin import (
    AccessDecision,
    AccessRule,
    AccessRules,
    Role,
    RoleBinding,
    RoleRule,
    UserListing,
)
from oncelog.client.client import Client
from oncelog.client.defaults import SystemClock
from oncelog.core import scram
from oncelog.v1 import security_pb2 as pb
from tests.unit.sdk.client.fake_cluster import BROKERS, FakeCluster

RULE = AccessRule("User:eve", "READ", "TOPIC", "shop.", "PREFIXED", "DENY", "10.0.0.1")
BINDING = RoleBinding("User:etl", "loader", "shop.", "PREFIXED")
ROLE = Role("loader", (RoleRule("TOPIC", ("READ", "WRITE")), RoleRule("GROUP", ("READ",), "g", "LITERAL")))


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_what_was_created_is_listed_as_it_was_given(cluster: FakeCluster) -> None:
    kept = pb.ListAclsReply()

    def keep(_: str, request: pb.CreateAclsRequest) -> pb.CreateAclsReply:
        assert request.call.nonce
        kept.acls.extend(request.acls)
        kept.bindings.extend(request.bindings)
        kept.roles.extend(request.roles)
        return pb.CreateAclsReply()

    cluster.answers = {"CreateAcls": keep, "ListAcls": kept}

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            await client.admin.create_acls([RULE], [BINDING], [ROLE])
            assert await client.admin.list_acls() == AccessRules((RULE,), (BINDING,), (ROLE,))

    cluster.run(work)


def test_just_what_is_named_is_deleted(cluster: FakeCluster) -> None:
    cluster.answers["DeleteAcls"] = pb.DeleteAclsReply(deleted=3)

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.admin.delete_acls([RULE], [BINDING], ["loader"]) == 3

    cluster.run(work)
    (request,) = cluster.requests("DeleteAcls")
    assert (request.acls[0].permission, request.bindings[0].role, list(request.roles)) == ("DENY", "loader", ["loader"])


def test_a_decision_is_told_with_its_reason(cluster: FakeCluster) -> None:
    cluster.answers["CheckAcl"] = pb.CheckAclReply(allowed=False, reason="no rule", principal="User:web")

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            found = await client.admin.check_acl("READ", "TOPIC", "orders", principal="User:web", host="10.0.0.2")
            assert found == AccessDecision(False, "User:web", "no rule")

    cluster.run(work)
    (request,) = cluster.requests("CheckAcl")
    assert (request.principal, request.host, request.operation) == ("User:web", "10.0.0.2", "READ")


def in_a_real_loop(cluster: FakeCluster) -> Client:
    """A password is worked on in a thread, which the virtual loop has none of."""
    return Client(BROKERS, transport=cluster, clock=SystemClock(), random=Random(1))


def test_a_password_is_not_sent_but_what_proves_it(cluster: FakeCluster) -> None:
    cluster.answers["AlterUser"] = pb.AlterUserReply()

    async def work() -> None:
        async with in_a_real_loop(cluster) as client:
            await client.admin.create_user("ann", "pencil")
            await client.admin.set_password("ann", "pencil")

    asyncio.run(work())
    new, changed = cluster.requests("AlterUser")
    assert (new.must_not_exist, new.must_exist, changed.must_not_exist, changed.must_exist) == (
        True,
        False,
        False,
        True,
    )
    made = scram.make_credential("pencil", new.user.salt)
    assert (new.user.stored_key, new.user.server_key) == (made.stored_key, made.server_key)
    assert new.user.iterations == made.iterations
    assert new.user.salt != changed.user.salt, "the same password looks different each time"
    assert b"pencil" not in new.SerializeToString()


@pytest.mark.parametrize(
    ("name", "password", "error"), [("ann", "", errors.ConfigError), ("", "x", errors.ConfigError)]
)
def test_a_user_without_a_name_or_a_password_asks_nobody(
    cluster: FakeCluster, name: str, password: str, error: type[errors.OncelogError]
) -> None:
    async def work() -> None:
        async with in_a_real_loop(cluster) as client:
            with pytest.raises(error):
                await client.admin.create_user(name, password)

    asyncio.run(work())
    assert cluster.count("AlterUser") == 0


def test_users_are_listed_and_deleted(cluster: FakeCluster) -> None:
    cluster.answers = {
        "ListUsers": pb.ListUsersReply(users=[pb.ScramUser(name="ann", iterations=4_096)]),
        "DeleteUser": pb.DeleteUserReply(deleted=False),
    }

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client:
            assert await client.admin.list_users() == [UserListing("ann", 4_096)]
            assert await client.admin.delete_user("bob") is False, "there was none"

    cluster.run(work)
