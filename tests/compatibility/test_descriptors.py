"""The wire contract only grows: no number has another meaning, no type has changed, no method is gone."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

import oncelog.v1
from oncelog.v1 import (
    channel_pb2,
    coordinator_pb2,
    errors_pb2,
    link_pb2,
    partition_pb2,
    pid_allocator_pb2,
    placement_pb2,
    security_pb2,
    types_pb2,
)
from tests.compatibility.freeze import DESCRIPTORS

MODULES = (
    channel_pb2,
    coordinator_pb2,
    errors_pb2,
    link_pb2,
    partition_pb2,
    pid_allocator_pb2,
    placement_pb2,
    security_pb2,
    types_pb2,
)
CHOSEN: set[str] = set()
"""What is misunderstood on purpose; to be emptied when the next release is frozen."""
Files = dict[str, descriptor_pb2.FileDescriptorProto]


def current() -> Files:
    found = {}
    for module in MODULES:
        proto = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(proto)
        found[proto.name] = proto
    return found


def previous() -> Files:
    stored = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes())
    return {proto.name: proto for proto in stored.file}


def problems(old: Files, new: Files) -> list[str]:
    """Everything that an older or a newer peer would misunderstand. In which file it stands is no part of that."""
    found = []
    after = descriptor_pb2.FileDescriptorProto()
    for proto in new.values():
        after.MergeFrom(proto)
    for name, before in old.items():
        found += _messages(before.message_type, after.message_type, name)
        found += _enums(before.enum_type, after.enum_type, name)
        found += _services(before, after)
    return found


def _messages(before: Any, after: Any, where: str) -> Iterator[str]:
    now = {message.name: message for message in after}
    for message in before:
        path = f"{where}:{message.name}"
        if message.name not in now:
            yield f"{path} is gone"
            continue
        yield from _fields(message, now[message.name], path)
        yield from _messages(message.nested_type, now[message.name].nested_type, path)
        yield from _enums(message.enum_type, now[message.name].enum_type, path)


def _fields(before: Any, after: Any, path: str) -> Iterator[str]:
    now = {field.number: field for field in after.field}
    reserved = [range(r.start, r.end) for r in after.reserved_range]
    for field in before.field:
        if field.number not in now:
            if not any(field.number in numbers for numbers in reserved):
                yield f"{path}.{field.name} = {field.number} is gone and its number is not reserved"
            continue
        other = now[field.number]
        if other.name != field.name:
            yield f"{path}: number {field.number} was {field.name} and is {other.name}"
        if (other.type, other.type_name, other.label) != (field.type, field.type_name, field.label):
            yield f"{path}.{field.name} has another type"
        if other.proto3_optional != field.proto3_optional or other.HasField("oneof_index") != field.HasField(
            "oneof_index"
        ):
            yield f"{path}.{field.name} has another presence"


def _enums(before: Any, after: Any, where: str) -> Iterator[str]:
    now = {enum.name: {value.number: value.name for value in enum.value} for enum in after}
    for enum in before:
        if enum.name not in now:
            yield f"{where}:{enum.name} is gone"
            continue
        for value in enum.value:
            if not _same_value(enum.name, value.name, now[enum.name].get(value.number, "")):
                yield f"{where}:{enum.name}: {value.number} was {value.name} and is {now[enum.name].get(value.number)}"


def _same_value(enum: str, before: str, after: str) -> bool:
    """Names are no part of the wire before 1.0 (docs/decisions/0046): each may get the name of its enum in front of it."""
    words = re.findall("[A-Z][a-z]*", enum)
    if not after.startswith("_".join(words).upper() + "_"):
        return before == after
    own = after.split("_")[len(words) :]
    return before.split("_")[-len(own) :] == own


def _services(before: Any, after: Any) -> Iterator[str]:
    now = {service.name: {method.name: method for method in service.method} for service in after.service}
    for service in before.service:
        for method in service.method:
            path, other = f"{service.name}.{method.name}", now.get(service.name, {}).get(method.name)
            if other is None:
                yield f"{path} is gone"
            elif (other.input_type, other.output_type) != (method.input_type, method.output_type):
                yield f"{path} takes or gives another message"
            elif (other.client_streaming, other.server_streaming) != (method.client_streaming, method.server_streaming):
                yield f"{path} streams otherwise"


def test_no_part_of_the_contract_is_left_out() -> None:
    """A contract that the previous version did not have is compared from the next release on."""
    generated = {module.name for module in pkgutil.iter_modules(oncelog.v1.__path__) if module.name.endswith("_pb2")}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == generated


def test_the_contract_only_grows() -> None:
    assert set(problems(previous(), current())) == CHOSEN


def _edited(edit: Any) -> list[str]:
    new = previous()
    edit(next(m for m in new["oncelog/v1/link.proto"].message_type if m.name == "Frame"))
    return problems(previous(), new)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda frame: frame.field[0].__setattr__("type", 4 if frame.field[0].type != 4 else 3), "another type"),
        (lambda frame: frame.field[0].__setattr__("name", "other"), "was correlation_id and is other"),
        (lambda frame: frame.field.pop(0), "is gone and its number is not reserved"),
        (lambda frame: frame.field[0].__setattr__("label", 3), "another type"),
    ],
)
def test_what_breaks_peers_is_found(edit: Any, says: str) -> None:
    (problem,) = _edited(edit)
    assert says in problem


def test_a_new_field_and_a_reserved_number_are_fine() -> None:
    def grow(frame: Any) -> None:
        frame.field.add(name="new", number=99, type=5, label=1)
        gone = frame.field.pop(1)
        frame.reserved_range.add(start=gone.number, end=gone.number + 1)

    assert _edited(grow) == []


def test_a_value_may_get_the_name_of_its_enum_and_no_other_meaning() -> None:
    assert _same_value("TransactionOutcome", "COMMITTED", "TRANSACTION_OUTCOME_COMMITTED")
    assert _same_value("DrainAction", "DRAIN_START", "DRAIN_ACTION_START")
    assert not _same_value("TransactionOutcome", "COMMITTED", "TRANSACTION_OUTCOME_ABORTED")
    assert not _same_value("TransactionOutcome", "COMMITTED", "ABORTED")
    assert not _same_value("TransactionOutcome", "COMMITTED", "")
