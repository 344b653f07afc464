"""Administration of access: rules, roles and users; a part of `client.admin`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.client.admin.admin_base import AdminBase
from oncelog.core import scram
from oncelog.errors import ConfigError
from oncelog.v1 import security_pb2 as pb
from oncelog.wire import methods


@dataclass(frozen=True, slots=True)
class AccessRule:
    """An ACL, in the words of docs/security.md. `host` "*": from anywhere."""

    principal: str
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str = "LITERAL"
    permission: str = "ALLOW"
    host: str = "*"


@dataclass(frozen=True, slots=True)
class RoleBinding:
    """A principal has a role on resources: `resource_name` "*" = on all."""

    principal: str
    role: str
    resource_name: str = "*"
    pattern_type: str = "LITERAL"


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Operations on resources of one type; `resource_name` empty: on those of the binding."""

    resource_type: str
    operations: tuple[str, ...]
    resource_name: str = ""
    pattern_type: str = ""


@dataclass(frozen=True, slots=True)
class Role:
    """A named bundle."""

    name: str
    rules: tuple[RoleRule, ...]
    built_in: bool = False


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Everything that is in force."""

    acls: tuple[AccessRule, ...]
    bindings: tuple[RoleBinding, ...]
    roles: tuple[Role, ...]


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """`reason` is for a person; empty for a caller who asks about himself."""

    allowed: bool
    principal: str
    reason: str


@dataclass(frozen=True, slots=True)
class UserListing:
    """A user with a password."""

    name: str
    iterations: int


class SecurityAdmin(AdminBase):
    """See the module. Changes need ALTER on the cluster, looking needs DESCRIBE."""

    async def create_acls(
        self, acls: Sequence[AccessRule] = (), bindings: Sequence[RoleBinding] = (), roles: Sequence[Role] = ()
    ) -> None:
        """Adds all of them, at most 100 together, or none. Raises `InvalidRequestError`."""
        request = pb.CreateAclsRequest(
            acls=map(_acl_to, acls), bindings=map(_binding_to, bindings), roles=map(_role_to, roles)
        )
        await self._caller.to_controller(methods.CREATE_ACLS, request, once=True)

    async def delete_acls(
        self, acls: Sequence[AccessRule] = (), bindings: Sequence[RoleBinding] = (), roles: Sequence[str] = ()
    ) -> int:
        """Takes just these away; the number of those that were there."""
        request = pb.DeleteAclsRequest(acls=map(_acl_to, acls), bindings=map(_binding_to, bindings), roles=roles)
        return (await self._caller.to_controller(methods.DELETE_ACLS, request, once=True)).deleted

    async def list_acls(self) -> AccessRules:
        """Rules, bindings and roles, built-in ones too."""
        reply = await self._caller.to_any_broker(methods.LIST_ACLS, pb.ListAclsRequest())
        return AccessRules(
            tuple(
                AccessRule(
                    item.principal,
                    item.operation,
                    item.resource_type,
                    item.resource_name,
                    item.pattern_type,
                    item.permission,
                    item.host,
                )
                for item in reply.acls
            ),
            tuple(
                RoleBinding(item.principal, item.role, item.resource_name, item.pattern_type) for item in reply.bindings
            ),
            tuple(map(_role_from, reply.roles)),
        )

    async def check_acl(
        self, operation: str, resource_type: str, resource_name: str, *, principal: str = "", host: str = ""
    ) -> AccessDecision:
        """Would this be allowed? `principal` empty: to me."""
        request = pb.CheckAclRequest(
            principal=principal,
            host=host,
            operation=operation,
            resource_type=resource_type,
            resource_name=resource_name,
        )
        reply = await self._caller.to_any_broker(methods.CHECK_ACL, request)
        return AccessDecision(reply.allowed, reply.principal, reply.reason)

    # ------------------------------------------------------------ users

    async def create_user(self, name: str, password: str) -> None:
        """Adds a user. The password stays in this process: what is sent and stored only proves it."""
        await self._alter_user(name, password, must_not_exist=True)

    async def set_password(self, name: str, password: str) -> None:
        """Another password for a user; links that the old one let in end."""
        await self._alter_user(name, password, must_exist=True)

    async def _alter_user(
        self, name: str, password: str, *, must_exist: bool = False, must_not_exist: bool = False
    ) -> None:
        if not password:
            raise ConfigError("a password is not empty")
        self._context.home.check()  # before the work
        salt = secrets.token_bytes(scram.SALT_BYTES)
        made = await asyncio.to_thread(scram.make_credential, password, salt)
        user = pb.ScramUser(
            name=scram.check_user_name(name),
            salt=salt,
            iterations=made.iterations,
            stored_key=made.stored_key,
            server_key=made.server_key,
        )
        request = pb.AlterUserRequest(user=user, must_exist=must_exist, must_not_exist=must_not_exist)
        await self._caller.to_controller(methods.ALTER_USER, request, once=True)

    async def delete_user(self, name: str) -> bool:
        """False: there was none."""
        request = pb.DeleteUserRequest(name=name)
        return (await self._caller.to_controller(methods.DELETE_USER, request, once=True)).deleted

    async def list_users(self) -> list[UserListing]:
        """By name."""
        reply = await self._caller.to_any_broker(methods.LIST_USERS, pb.ListUsersRequest())
        return [UserListing(item.name, item.iterations) for item in reply.users]


def _acl_to(rule: AccessRule) -> pb.Acl:
    return pb.Acl(
        principal=rule.principal,
        host=rule.host,
        resource_type=rule.resource_type,
        pattern_type=rule.pattern_type,
        resource_name=rule.resource_name,
        operation=rule.operation,
        permission=rule.permission,
    )


def _binding_to(binding: RoleBinding) -> pb.RoleBinding:
    return pb.RoleBinding(
        principal=binding.principal,
        role=binding.role,
        pattern_type=binding.pattern_type,
        resource_name=binding.resource_name,
    )


def _role_to(role: Role) -> pb.Role:
    made = pb.Role(name=role.name)
    for rule in role.rules:
        made.rules.add(
            resource_type=rule.resource_type,
            operations=rule.operations,
            pattern_type=rule.pattern_type,
            resource_name=rule.resource_name,
        )
    return made


def _role_from(item: pb.Role) -> Role:
    rules = tuple(
        RoleRule(rule.resource_type, tuple(rule.operations), rule.resource_name, rule.pattern_type)
        for rule in item.rules
    )
    return Role(item.name, rules, item.built_in)
