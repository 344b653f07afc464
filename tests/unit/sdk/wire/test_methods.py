"""One table names each remote method; a message that cannot be parsed is named at the end that met it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import errors
from oncelog.types import Buffer
from oncelog.v1 import channel_pb2, coordinator_pb2, partition_pb2, pid_allocator_pb2, security_pb2
from oncelog.v1 import partition_pb2 as pb
from oncelog.wire import methods

SERVICES = {
    **partition_pb2.DESCRIPTOR.services_by_name,
    **channel_pb2.DESCRIPTOR.services_by_name,
    **coordinator_pb2.DESCRIPTOR.services_by_name,
    **pid_allocator_pb2.DESCRIPTOR.services_by_name,
    **security_pb2.DESCRIPTOR.services_by_name,
}
GARBAGE = b"\xff" * 9


class Answering:
    """A transport that notes each call and answers with these bytes."""

    def __init__(self, header: bytes, payload: bytes = b"") -> None:
        self.answer = (header, payload)
        self.calls: list[tuple[Any, ...]] = []

    async def call(
        self, address: str, method: str, header: bytes, payload: Buffer, timeout_ms: int
    ) -> tuple[bytes, Buffer]:
        self.calls.append((address, method, header, payload, timeout_ms))
        return self.answer

    async def close(self) -> None:
        """Nothing to close."""


def test_the_table_is_that_of_the_contract() -> None:
    contract = {
        f"{service}.{method.name}": (method.input_type.full_name, method.output_type.full_name)
        for service, described in SERVICES.items()
        for method in described.methods
        if method.name != "Connect"
    }
    table = {
        name: (spec.request.DESCRIPTOR.full_name, spec.reply.DESCRIPTOR.full_name) for name, spec in methods.ALL.items()
    }
    assert table == contract


@pytest.mark.parametrize("spec", methods.ALL.values(), ids=lambda spec: spec.name)
def test_what_travels_beside_a_message_is_a_field_of_it(spec: methods.MethodSpec[Any, Any]) -> None:
    for bulk, message in ((spec.request_bulk, spec.request), (spec.reply_bulk, spec.reply)):
        if bulk:
            field = message.DESCRIPTOR.fields_by_name[bulk]
            assert field.type == field.TYPE_BYTES
    assert methods.ALL[spec.name] is spec


def test_a_call_sends_header_and_payload_and_parses_the_answer() -> None:
    transport = Answering(pb.FetchReply(partitions=[pb.FetchedPartition(next_offset=7)]).SerializeToString(), b"bulk")
    request = pb.FetchRequest(max_bytes=3)
    reply, payload = asyncio.run(methods.FETCH.call(transport, "b0:1", request, 50, b"out"))
    assert (reply.partitions[0].next_offset, payload) == (7, b"bulk")
    assert transport.calls == [("b0:1", "PartitionLeader.Fetch", request.SerializeToString(), b"out", 50)]
    assert methods.FETCH.decode_request(request.SerializeToString()) == request


def test_bytes_that_are_no_message_are_the_servers_fault_in_an_answer_and_the_callers_in_a_request() -> None:
    with pytest.raises(
        errors.InvalidResponseError, match=r"answer to PartitionLeader.Fetch cannot be parsed"
    ) as caught:
        asyncio.run(methods.FETCH.call(Answering(GARBAGE), "b0:1", pb.FetchRequest(), 50))
    assert caught.value.context["address"] == "b0:1"
    with pytest.raises(errors.InvalidRequestError, match=r"request of PartitionLeader.Fetch cannot be parsed"):
        methods.FETCH.decode_request(GARBAGE)
