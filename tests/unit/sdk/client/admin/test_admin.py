"""`client.admin` has every part of administration, and what its methods answer can be imported beside it."""

from __future__ import annotations

import dataclasses
import inspect
from types import ModuleType

import pytest

from oncelog.client.admin import admin, descriptions, operations_admin, quota_admin, security_admin
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.admin_base import AdminBase

PARTS = [part for part in Admin.__mro__[1:] if issubclass(part, AdminBase) and part is not AdminBase]


def public(kind: type) -> set[str]:
    return {name for name, item in vars(kind).items() if not name.startswith("_") and inspect.isfunction(item)}


def test_no_part_hides_a_method_of_another() -> None:
    names = [name for part in PARTS for name in public(part)]
    assert len(names) == len(set(names))
    assert {"create_topic", "list_transactions", "list_groups", "list_acls", "list_quotas", "broker_loads"} <= set(
        names
    )


@pytest.mark.parametrize("module", [descriptions, operations_admin, quota_admin, security_admin])
def test_each_kind_of_answer_is_exported(module: ModuleType) -> None:
    kinds = {
        name
        for name, item in vars(module).items()
        if dataclasses.is_dataclass(item) and getattr(item, "__module__", "") == module.__name__
    }
    assert kinds
    assert kinds <= set(admin.__all__)
    assert all(getattr(admin, name) is getattr(module, name) for name in kinds)
