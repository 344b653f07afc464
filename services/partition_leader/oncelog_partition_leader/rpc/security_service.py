"""The broker's remote methods about access rules and users. The controller makes the changes, each once.

Rule 1: a request is checked as a whole, then written in one commit: all of it, or nothing.
Rule 2: answers are read from etcd each time, so they show a change that was just made, and work before `authorization` is
        switched on: rules can be prepared.
Rule 3: a change is answered when it is in force in this process; the others follow within moments.
Rule 4: a user's stored keys can be written and are never answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from random import Random
from typing import Final

from oncelog.core import scram
from oncelog.core.scram import Credential
from oncelog.errors import ConfigError, InvalidRequestError, MetadataUnavailableError, PolicyViolationError
from oncelog.types import Buffer
from oncelog.v1 import security_pb2 as pb
from oncelog.wire import methods
from oncelog_partition_leader.cluster.controller import Controller, require_controller
from oncelog_partition_leader.rpc.security_wire import acl_from, acl_to, binding_from, binding_to, role_from, role_to
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.acl import (
    ANONYMOUS,
    WILDCARD,
    Operation,
    ResourceType,
    check_host,
    check_operation,
    check_principal,
    is_printable,
    member,
)
from oncelog_runtime.core.security.roles import BUILT_IN, check_binding, check_role_name
from oncelog_runtime.metadata.cluster_keys import SECURITY
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Compare, MetadataStore, Put, RpcServer
from oncelog_runtime.security import stored
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.security.gate import register
from oncelog_runtime.security.stored import Stored, StoredUser
from oncelog_runtime.serving.call_context import CALL
from oncelog_runtime.serving.once import Once

ITEMS_MAX: Final = 100
"""The most items of one request: etcd limits the writes of one commit."""
STORED_MAX: Final = 10_000
"""The most rules, bindings, roles and users of a cluster together."""
_IN_FORCE_MS: Final = 5_000


class SecurityService:
    """The handlers of these methods. `security` None: access rules are off."""

    def __init__(
        self,
        metadata: MetadataStore,
        view: ClusterView,
        controller: Controller,
        security: Authorizer | None,
        once: Once,
        random: Random,
        super_users: Sequence[str] = (),
    ) -> None:
        self._metadata = metadata
        self._view = view
        self._controller = controller
        self._security = security
        self._once = once
        self._random = random
        self._super_users = tuple(super_users)

    def register(self, server: RpcServer) -> None:
        """Registers every method with the server."""
        register(server, methods.CREATE_ACLS, self.create_acls)
        register(server, methods.DELETE_ACLS, self.delete_acls)
        register(server, methods.LIST_ACLS, self.list_acls)
        register(server, methods.CHECK_ACL, self.check_acl)
        register(server, methods.ALTER_USER, self.alter_user)
        register(server, methods.DELETE_USER, self.delete_user)
        register(server, methods.LIST_USERS, self.list_users)

    # ------------------------------------------------------------ rules

    async def create_acls(self, request: pb.CreateAclsRequest, _payload: Buffer) -> tuple[pb.CreateAclsReply, Buffer]:
        """Creates rules, bindings and roles. Raises `InvalidRequestError` for the first item that is not legal."""
        require_controller(self._controller, self._view)
        await self._once.run(request.call, self._controller.term, lambda: self._create(request))
        return pb.CreateAclsReply(), b""

    async def _create(self, request: pb.CreateAclsRequest) -> None:
        _check_count(len(request.acls) + len(request.bindings) + len(request.roles))
        known = await self._stored()
        roles = {role.name: role for role in map(role_from, request.roles)}
        all_roles = {**known.roles_by_name(), **roles}
        puts = {stored.role_key(role.name): stored.encode(role.as_dict()) for role in roles.values()}
        for acl in map(acl_from, request.acls):
            puts[stored.acl_key(acl)] = stored.encode(acl.as_dict())
        for binding in map(binding_from, request.bindings):
            puts[stored.binding_key(check_binding(binding, all_roles))] = stored.encode(binding.as_dict())
        for binding in known.bindings.values():
            if binding.role in roles:
                check_binding(binding, all_roles)
        _check_room(known, len(puts))
        await self._commit([Put(key, value) for key, value in puts.items()])

    async def delete_acls(self, request: pb.DeleteAclsRequest, _payload: Buffer) -> tuple[pb.DeleteAclsReply, Buffer]:
        """Deletes rules, bindings and roles. Missing ones are no error: `deleted` counts those that existed."""
        require_controller(self._controller, self._view)
        deleted = await self._once.run(request.call, self._controller.term, lambda: self._delete(request))
        return pb.DeleteAclsReply(deleted=deleted), b""

    async def _delete(self, request: pb.DeleteAclsRequest) -> int:
        _check_count(len(request.acls) + len(request.bindings) + len(request.roles))
        known = await self._stored()
        keys = {stored.acl_key(acl_from(item)) for item in request.acls}
        keys |= {stored.binding_key(binding_from(item)) for item in request.bindings}
        left = {binding.role for key, binding in known.bindings.items() if key not in keys}
        for name in map(check_role_name, request.roles):
            if name in left:
                raise InvalidRequestError("somebody has this role: remove its bindings first", role=name)
            keys.add(stored.role_key(name))
        there = sorted(key for key in keys if key in known.acls or key in known.bindings or key in known.roles)
        await self._commit(deletes=there)
        return len(there)

    async def list_acls(self, _request: pb.ListAclsRequest, _payload: Buffer) -> tuple[pb.ListAclsReply, Buffer]:
        """Lists all rules, bindings and roles, in the order of principals."""
        known = await self._stored()
        acls = sorted(known.acls.values(), key=lambda acl: tuple(acl.as_dict().values()))
        bindings = sorted(known.bindings.values(), key=lambda binding: tuple(binding.as_dict().values()))
        roles = sorted([*BUILT_IN.values(), *known.roles_by_name().values()], key=lambda role: role.name)
        reply = pb.ListAclsReply(acls=map(acl_to, acls), bindings=map(binding_to, bindings), roles=map(role_to, roles))
        return reply, b""

    async def check_acl(self, request: pb.CheckAclRequest, _payload: Buffer) -> tuple[pb.CheckAclReply, Buffer]:
        """Shows a decision and its reason. A caller that asks about itself gets the decision without the rule behind it."""
        call = CALL.get()
        access = call.access if call is not None else None
        own = access.principal if access is not None else ANONYMOUS
        principal = check_principal(request.principal, wildcard=False) if request.principal else own
        kind = member(ResourceType, request.resource_type, "resource type")
        operation = member(Operation, request.operation, "operation")
        check_operation(kind, operation)
        if not is_printable(request.resource_name):
            raise InvalidRequestError("a resource's name is printable and not empty")
        host = check_host(request.host) if request.host else (access.host if access is not None else WILDCARD)
        policy, known = Policy(self._super_users), await self._stored()
        policy.replace(known.acls.values(), known.bindings.values(), known.roles_by_name())
        decision = policy.access(principal, host).why(operation, kind, request.resource_name)
        reason = decision.reason if request.principal or access is None else ""
        return pb.CheckAclReply(allowed=decision.allowed, reason=reason, principal=principal), b""

    # ------------------------------------------------------------ users

    async def alter_user(self, request: pb.AlterUserRequest, _payload: Buffer) -> tuple[pb.AlterUserReply, Buffer]:
        """Adds a user, or changes a password."""
        require_controller(self._controller, self._view)
        await self._once.run(request.call, self._controller.term, lambda: self._alter_user(request))
        return pb.AlterUserReply(), b""

    async def _alter_user(self, request: pb.AlterUserRequest) -> None:
        user = _user_from(request.user)
        known = await self._stored()
        before = known.user(user.name)
        if before is None and request.must_exist:
            raise InvalidRequestError("there is no such user; see `oncelog user list`", user=user.name)
        if before is not None and request.must_not_exist:
            raise InvalidRequestError("there is such a user: change the password with `oncelog user passwd`")
        _check_room(known, 1)
        puts = [Put(stored.user_key(user.name), stored.encode_user(user))]
        compares = [Compare(puts[0].key, before.mod_revision if before is not None else 0)]
        if not known.decoy:
            secret = sha256(user.credential.server_key + self._random.randbytes(32)).digest()
            puts.append(Put(stored.DECOY_KEY, secret))
            compares.append(Compare(stored.DECOY_KEY, 0))
        await self._commit(puts, compares=compares)

    async def delete_user(self, request: pb.DeleteUserRequest, _payload: Buffer) -> tuple[pb.DeleteUserReply, Buffer]:
        """Deletes a user, whose links end with their next request."""
        require_controller(self._controller, self._view)
        deleted = await self._once.run(request.call, self._controller.term, lambda: self._delete_user(request))
        return pb.DeleteUserReply(deleted=deleted), b""

    async def _delete_user(self, request: pb.DeleteUserRequest) -> bool:
        known = await self._stored()
        if known.user(request.name) is None:
            return False
        await self._commit(deletes=[stored.user_key(request.name)])
        return True

    async def list_users(self, _request: pb.ListUsersRequest, _payload: Buffer) -> tuple[pb.ListUsersReply, Buffer]:
        """Lists the users, by name."""
        known = await self._stored()
        users = sorted(known.users.values(), key=lambda user: user.name)
        items = [pb.ScramUser(name=user.name, iterations=user.credential.iterations) for user in users]
        return pb.ListUsersReply(users=items), b""

    # ------------------------------------------------------------ etcd

    async def _stored(self) -> Stored:
        found = Stored()
        for item in (await self._metadata.list(SECURITY)).items:
            found.enter(item.key, item.value, item.mod_revision)
        return found

    async def _commit(
        self, puts: Sequence[Put] = (), deletes: Sequence[str] = (), compares: Sequence[Compare] = ()
    ) -> None:
        if not puts and not deletes:
            return
        result = await self._metadata.commit(compares, puts, deletes)
        if not result.succeeded:
            raise MetadataUnavailableError("somebody else changed the same thing in the same moment: try again")
        if self._security is not None:
            await self._security.until(result.revision, _IN_FORCE_MS)


def _check_count(count: int) -> None:
    if not 0 < count <= ITEMS_MAX:
        raise InvalidRequestError(f"1 to {ITEMS_MAX} rules, bindings and roles at once", given=count)


def _check_room(known: Stored, more: int) -> None:
    count = len(known.acls) + len(known.bindings) + len(known.roles) + len(known.users)
    if count + more > STORED_MAX:
        raise PolicyViolationError(f"a cluster has at most {STORED_MAX} rules, bindings, roles and users; use PREFIXED")


def _user_from(item: pb.ScramUser) -> StoredUser:
    try:
        scram.check_user_name(item.name)
    except ConfigError as error:
        raise InvalidRequestError(error.message) from None
    keys = len(item.stored_key) == len(item.server_key) == scram.KEY_BYTES
    if not keys or not scram.SALT_BYTES <= len(item.salt) <= 64:
        raise InvalidRequestError(f"a user has a salt of 16 to 64 bytes and two keys of {scram.KEY_BYTES}")
    if not scram.ITERATIONS_MIN <= item.iterations <= scram.ITERATIONS_MAX:
        raise InvalidRequestError(f"iterations are {scram.ITERATIONS_MIN} to {scram.ITERATIONS_MAX}")
    return StoredUser(item.name, Credential(item.salt, item.iterations, item.stored_key, item.server_key))
