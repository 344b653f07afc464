"""Rules and users: all of a request is written or nothing, answers are of what stands in etcd, keys never come out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from oncelog.core.scram import make_credential
from oncelog.errors import InvalidRequestError, MetadataUnavailableError, NotControllerError
from oncelog.v1 import security_pb2 as pb
from oncelog_partition_leader.rpc.security_service import ITEMS_MAX, SecurityService
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.metadata.cluster_keys import SECURITY
from oncelog_runtime.security import stored
from oncelog_runtime.serving.call_context import CALL, CallInfo
from tests.unit.partition_leader import cluster_place
from tests.unit.partition_leader.cluster_place import Place
from tests.unit.partition_leader.rpc.admin_hands import controller, named, once

ACL = pb.Acl(principal="User:a", resource_type="TOPIC", resource_name="orders", operation="READ")
ROLE = pb.Role(name="clerk", rules=[pb.RoleRule(resource_type="TOPIC", operations=["READ"])])
BINDING = pb.RoleBinding(principal="User:b", role="clerk", resource_name="orders")
CREDENTIAL = make_credential("secret", b"s" * 16, 4_096)


class Serving:
    """The service on an etcd. `waited`: for which revisions it waited until they were in force."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.controller = controller(place)
        self.waited: list[int] = []
        security: Any = self
        self.service = SecurityService(
            place.metadata, place.view, self.controller, security, once(), Random(1), ["User:root"]
        )

    async def until(self, revision: int, _timeout_ms: int) -> bool:
        self.waited.append(revision)
        return True

    async def create(self, **items: Any) -> None:
        await self.service.create_acls(pb.CreateAclsRequest(**items), b"")

    async def delete(self, **items: Any) -> int:
        return (await self.service.delete_acls(pb.DeleteAclsRequest(**items), b""))[0].deleted

    async def list(self) -> pb.ListAclsReply:
        return (await self.service.list_acls(pb.ListAclsRequest(), b""))[0]

    async def may(self, principal: str, operation: str = "READ", name: str = "orders") -> pb.CheckAclReply:
        request = pb.CheckAclRequest(
            principal=principal, operation=operation, resource_type="TOPIC", resource_name=name
        )
        return (await self.service.check_acl(request, b""))[0]

    async def keys(self) -> list[str]:
        return [item.key for item in (await self.place.etcd.list(SECURITY)).items]


def run(scenario: Callable[[Serving], Awaitable[None]]) -> None:
    async def whole(place: Place) -> None:
        await scenario(Serving(place))

    cluster_place.run(whole)


# ---------------------------------------------------------------- rules


def test_what_was_written_is_listed_and_in_force_when_it_is_answered() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create(acls=[ACL], bindings=[BINDING], roles=[ROLE])
        assert len(serving.waited) == 1
        found = await serving.list()
        assert [acl.principal for acl in found.acls] == ["User:a"]
        assert [binding.role for binding in found.bindings] == ["clerk"]
        assert "clerk" in [role.name for role in found.roles]
        assert [role.name for role in found.roles if role.built_in], "built-in ones too"

    run(scenario)


def test_one_bad_item_keeps_all_of_them_out() -> None:
    async def scenario(serving: Serving) -> None:
        bad = pb.RoleBinding(principal="User:b", role="unknown")
        with pytest.raises(InvalidRequestError):
            await serving.create(acls=[ACL], bindings=[bad], roles=[ROLE])
        assert await serving.keys() == []

    run(scenario)


@pytest.mark.parametrize("count", [0, ITEMS_MAX + 1])
def test_a_request_has_between_one_and_a_hundred_items(count: int) -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(InvalidRequestError):
            await serving.create(acls=[ACL] * count)
        with pytest.raises(InvalidRequestError):
            await serving.delete(acls=[ACL] * count)

    run(scenario)


def test_deleting_counts_what_was_there() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create(acls=[ACL], bindings=[BINDING], roles=[ROLE])
        other = pb.Acl(principal="User:z", resource_type="TOPIC", resource_name="orders", operation="READ")
        assert await serving.delete(acls=[ACL, other]) == 1
        assert await serving.delete(acls=[ACL]) == 0

    run(scenario)


def test_a_role_that_somebody_has_is_not_deleted_without_its_bindings() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create(bindings=[BINDING], roles=[ROLE])
        with pytest.raises(InvalidRequestError, match="remove its bindings"):
            await serving.delete(roles=["clerk"])
        assert await serving.delete(bindings=[BINDING], roles=["clerk"]) == 2

    run(scenario)


def test_a_role_is_not_changed_so_that_a_binding_of_it_becomes_illegal() -> None:
    async def scenario(serving: Serving) -> None:
        of_groups = pb.RoleRule(resource_type="GROUP", operations=["READ"])
        no_topics_name = pb.RoleBinding(principal="User:b", role="clerk", resource_name="my group")
        await serving.create(bindings=[no_topics_name], roles=[pb.Role(name="clerk", rules=[of_groups])])
        with pytest.raises(InvalidRequestError):
            await serving.create(roles=[ROLE])
        (clerk,) = [role for role in (await serving.list()).roles if role.name == "clerk"]
        assert clerk.rules[0].resource_type == "GROUP"

    run(scenario)


def test_only_the_controller_changes_anything_and_a_copy_of_a_call_does_not() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create(acls=[ACL], call=named("a"))
        await serving.delete(acls=[ACL], call=named("b"))
        await serving.create(acls=[ACL], call=named("a"))
        assert await serving.keys() == [], "the copy was executed before"
        with pytest.raises(NotControllerError):
            await serving.create(acls=[ACL], call=named("c", term=4))
        serving.controller.is_controller = False
        for change in (serving.create(acls=[ACL]), serving.delete(acls=[ACL])):
            with pytest.raises(NotControllerError):
                await change
        assert (await serving.list()).roles, "looking is for every broker"

    run(scenario)


def test_the_decision_and_its_reason_are_told_to_who_asks_about_another() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create(acls=[ACL], bindings=[BINDING], roles=[ROLE])
        asked = [await serving.may(principal) for principal in ("User:a", "User:b", "User:c", "User:root")]
        assert [answer.allowed for answer in asked] == [True, True, False, True]
        assert all(answer.reason for answer in asked)
        assert not (await serving.may("User:a", "WRITE")).allowed

    run(scenario)


def test_who_asks_about_himself_is_not_told_by_which_rule() -> None:
    async def scenario(serving: Serving) -> None:
        await serving.create(acls=[ACL])
        CALL.set(CallInfo("ipv4:10.0.0.7:4", listener="client", access=Policy().access("User:a", "10.0.0.7")))
        answer = await serving.may("")
        assert (answer.allowed, answer.reason, answer.principal) == (True, "", "User:a")

    run(scenario)


@pytest.mark.parametrize(
    "change", [{"principal": "User:*"}, {"operation": "DANCE"}, {"name": ""}, {"operation": "CLUSTER_ACTION"}]
)
def test_a_question_that_has_no_answer_is_refused(change: dict[str, str]) -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(InvalidRequestError):
            await serving.may(**{"principal": "User:a", **change})

    run(scenario)


# ---------------------------------------------------------------- users


def user(name: str = "anna", **changes: Any) -> pb.ScramUser:
    fields: dict[str, Any] = {
        "name": name,
        "salt": CREDENTIAL.salt,
        "iterations": CREDENTIAL.iterations,
        "stored_key": CREDENTIAL.stored_key,
        "server_key": CREDENTIAL.server_key,
    }
    return pb.ScramUser(**{**fields, **changes})


async def alter(serving: Serving, item: pb.ScramUser, **more: Any) -> None:
    await serving.service.alter_user(pb.AlterUserRequest(user=item, **more), b"")


async def users(serving: Serving) -> list[pb.ScramUser]:
    return list((await serving.service.list_users(pb.ListUsersRequest(), b""))[0].users)


def test_a_users_keys_go_in_and_never_come_out() -> None:
    async def scenario(serving: Serving) -> None:
        for name in ("bert", "anna"):
            await alter(serving, user(name))
        assert await users(serving) == [pb.ScramUser(name=name, iterations=4_096) for name in ("anna", "bert")]
        assert stored.DECOY_KEY in await serving.keys()

    run(scenario)


def test_a_user_is_added_or_changed_as_was_asked() -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(InvalidRequestError, match="no such user"):
            await alter(serving, user(), must_exist=True)
        await alter(serving, user(), must_not_exist=True)
        with pytest.raises(InvalidRequestError, match="there is such a user"):
            await alter(serving, user(), must_not_exist=True)
        await alter(serving, user(iterations=5_000), must_exist=True)
        assert [found.iterations for found in await users(serving)] == [5_000]

    run(scenario)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"salt": b"s" * 15},
        {"salt": b"s" * 65},
        {"stored_key": b"k"},
        {"server_key": b""},
        {"iterations": 4_095},
        {"iterations": 1_000_001},
    ],
)
def test_a_user_that_protects_nothing_is_refused(changes: dict[str, Any]) -> None:
    async def scenario(serving: Serving) -> None:
        with pytest.raises(InvalidRequestError):
            await alter(serving, user(**changes))
        assert await serving.keys() == []

    run(scenario)


def test_two_changes_of_one_user_in_one_moment_are_not_both_taken() -> None:
    async def scenario(serving: Serving) -> None:
        await alter(serving, user())

        async def other() -> None:
            await serving.place.put(stored.user_key("anna"), b"{}")

        serving.place.metadata.before_commit = other
        with pytest.raises(MetadataUnavailableError) as refusal:
            await alter(serving, user())
        assert refusal.value.retriable

    run(scenario)


def test_a_deleted_user_is_gone_and_deleting_again_says_so() -> None:
    async def scenario(serving: Serving) -> None:
        await alter(serving, user())
        request = pb.DeleteUserRequest(name="anna")
        deleted = [(await serving.service.delete_user(request, b""))[0].deleted for _ in range(2)]
        assert deleted == [True, False]
        assert await users(serving) == []

    run(scenario)
