"""Rows about producers' sessions, transactions and committed offsets."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import types_pb2
from oncelog.wire import methods
from tests.conformance.names import ABORTED, COMMITTED, Place
from tests.hostile_inputs.hands import batch_of, refused
from tests.hostile_inputs.rows import row

NOT_HIS = (errors.TransactionalIdAuthorizationError, errors.InvalidPidMappingError)


def tid(place: Place, more: str = "") -> str:
    """A transactional id of the row's own."""
    return f"{place.topic}.t{more}"


@row(25, says="a plain batch of a producer whose transaction is open")
async def plain_meanwhile(s: Any, place: Place) -> None:
    writer = await s.session(tid(place))
    await s.write(place, writer, "undone")
    plain = writer.of(txn_producer_id=-1, txn_no=0, txn_shard=0xFFFF)
    data = batch_of(s, place, plain, 1)
    await refused(s.produce(place, data, token=writer.token), errors.InvalidTxnStateError, *NOT_HIS)
    await s.end(writer, commit=False, visible=True)


@row(26, says="a transactional batch without an id, and under the id of somebody else")
async def transactional_without_id(s: Any, place: Place) -> None:
    writer, other = await s.session(tid(place)), await s.session(tid(place, "2"))
    for given in ("", other.transactional_id, "never heard of"):
        for token in (writer.token, other.token, b""):
            if (given, token) != (writer.transactional_id, writer.token):
                data = batch_of(s, place, writer)
                await refused(s.produce(place, data, tid=given, token=token), *NOT_HIS)


@row(27, says="a batch for a partition that is not in the transaction: it is enrolled before it is written")
async def not_enrolled(s: Any, place: Place) -> list[str]:
    writer = await s.session(tid(place))
    await s.write(place, writer, "joined late")
    reply = await s.end(writer, counts={place: 1}, visible=True)
    assert (reply.outcome, reply.visible) == (COMMITTED, True)
    return ["joined late"]


@row(28, says="an end without a beginning, the other end after an end, and the same end twice")
async def ends(s: Any, place: Place) -> list[str]:
    writer = await s.session(tid(place))
    for ahead in (2, 1_000_000, 1 << 62):
        await refused(s.end(writer.of(txn_no=writer.txn_no + ahead)), errors.InvalidTxnStateError)
    await refused(s.end(writer.of(txn_no=-1)), errors.InvalidTxnStateError, errors.InvalidRequestError)
    await s.write(place, writer, "kept")
    for _ in range(2):
        assert (await s.end(writer, counts={place: 1}, visible=True)).outcome == COMMITTED
    with_abort = s.end(writer, commit=False)
    try:
        assert (await with_abort).outcome == COMMITTED, "what was decided stays decided"
    except (errors.InvalidTxnStateError, errors.TxnEndedError):
        pass
    request = s.end_request(writer.next())
    for outcome in (types_pb2.TRANSACTION_OUTCOME_UNSPECIFIED, types_pb2.TRANSACTION_OUTCOME_ONGOING, 77):
        request.outcome = outcome
        await refused(s.ask(writer.transactional_id, methods.END_TRANSACTION, request), errors.InvalidRequestError)
    return ["kept"]


@row(30, says="a client that writes markers, and calls every other method of services")
async def markers(s: Any, place: Place) -> None:
    writer = await s.session(tid(place))
    item = pb.TxnMarker(
        topic_id=place.topic_id, partition=0, txn_producer_id=writer.producer_id, txn_no=writer.txn_no, outcome=ABORTED
    )
    request = pb.WriteTxnMarkersRequest(txn_shard=writer.txn_shard, coordinator_epoch=1 << 30, markers=[item])
    leader = s.leader(place)
    await refused(s.call(leader, methods.WRITE_TXN_MARKERS, request), errors.ClusterAuthorizationError)
    for spec, asked in (
        (methods.REPLICATE, pb.ReplicateRequest()),
        (methods.SYNC_REPLICA, pb.SyncReplicaRequest()),
        (methods.REPORT_BROKER, pb.ReportBrokerRequest()),
        (methods.REPLICA_STATUS, pb.ReplicaStatusRequest()),
    ):
        await refused(s.call(leader, spec, asked), errors.ClusterAuthorizationError)
    for spec, asked in (
        (methods.WRITE_GROUP_MARKERS, co.WriteGroupMarkersRequest(group_id="g")),
        (methods.RESOLVE_TRANSACTION, s.resolve_request(writer)),
    ):
        await refused(s.ask(writer.transactional_id, spec, asked), errors.ClusterAuthorizationError)


@row(33, says="a transaction time-out of zero, below zero, or above the maximum")
async def timeouts(s: Any, place: Place) -> None:
    for timeout_ms in (0, -1, -(1 << 31), 900_001, (1 << 31) - 1):
        await refused(s.session(tid(place), timeout_ms=timeout_ms), errors.InvalidTransactionTimeoutError)


@row(
    34,
    says="a transactional id that is long, or holds characters that cannot be printed; an emoji and two dots are only text",
)
async def transactional_ids(s: Any, place: Place) -> None:
    for name in ("i" * 65_536, "i" * 1_025, "a\0b", "a\nb", "\x1b[31m", "a\u202eb"):
        await refused(s.session(name), errors.InvalidRequestError)
        await refused(
            s.ask(name, methods.GET_OUTCOME, co.GetOutcomeRequest(transactional_id=name)), errors.InvalidRequestError
        )
    nameless = co.EndTransactionRequest(name=co.TransactionName(), outcome=COMMITTED)
    await refused(s.ask("any", methods.END_TRANSACTION, nameless), errors.InvalidRequestError)
    for name in ("\U0001f600", "..", "../../etc"):
        writer = await s.session(f"{name} {place.topic}")
        await s.write(place, writer, "undone")
        await s.end(writer, commit=False, visible=True)


@row(36, says="a transaction over 100,000 partitions, and over ones that do not exist")
async def many_partitions(s: Any, place: Place) -> None:
    writer = await s.session(tid(place))
    everywhere = [types_pb2.TopicPartition(topic_id=f"{n:032x}", partition=0) for n in range(100_000)]
    request = co.EnrolPartitionsRequest(name=writer.name, partitions=everywhere)
    ask = s._ask_once(s.owner(writer.transactional_id), methods.ENROL_PARTITIONS, request)
    await refused(ask, errors.ResourceExhaustedError, errors.UnknownTopicError, again=True)
    del request.partitions[3:]
    await refused(s.ask(writer.transactional_id, methods.ENROL_PARTITIONS, request), errors.UnknownTopicError)
    for topic_id, partition in (("", 0), ("a/b", 0), (place.topic_id, -1), (place.topic_id.upper() + "x", 0)):
        del request.partitions[:]
        request.partitions.add(topic_id=topic_id, partition=partition)
        asked = s.ask(writer.transactional_id, methods.ENROL_PARTITIONS, request)
        await refused(asked, errors.InvalidRequestError, errors.UnknownTopicError)


@row(51, says="committed offsets below zero, and behind the end of the log")
async def offsets(s: Any, place: Place) -> None:
    for offset in (-1, -(1 << 63)):
        await refused(s.commit_offset(f"{place.topic}.g", place, offset), errors.InvalidRequestError)
    for offset in (
        1_000_000,
        (1 << 63) - 1,
    ):  # the log may grow: a consumer that comes back there is told OFFSET_OUT_OF_RANGE
        await s.commit_offset(f"{place.topic}.g", place, offset)
        assert await s.committed_offset(f"{place.topic}.g", place) == offset


@row(52, says="metadata of 1 MiB beside an offset; control characters and HTML are kept as they are")
async def metadata(s: Any, place: Place) -> None:
    group = f"{place.topic}.g"
    entry = co.OffsetEntry(topic_id=place.topic_id, topic=place.topic, partition=0, offset=1, metadata="m" * (1 << 20))
    request = co.CommitOffsetsRequest(member=co.GroupMember(group_id=group, member_epoch=-1), offsets=[entry])
    await refused(s.ask_group(group, methods.COMMIT_OFFSETS, request), errors.OffsetMetadataTooLargeError)
    assert await s.committed_offset(group, place) is None
    text = "<script>\x1b[31m\x00\n\u202e</script>"
    request.offsets[0].metadata = text
    await s.ask_group(group, methods.COMMIT_OFFSETS, request)
    found = await s.ask_group(group, methods.FETCH_OFFSETS, s.fetch_offsets_request(group, place))
    assert [item.metadata for item in found.offsets] == [text]


@row(54, says="a group id that is empty, 1 MiB long or not printable, and a member id of 1 MiB")
async def groups(s: Any, place: Place) -> None:
    for name in ("", "g" * (1 << 20), "a\0b", "a\nb"):
        await refused(s.commit_offset(name, place, 1), errors.InvalidGroupIdError)
        for spec, request in (
            (methods.FETCH_OFFSETS, s.fetch_offsets_request(name, place)),
            (methods.DESCRIBE_GROUP, co.DescribeGroupRequest(group_id=name)),
            (methods.DELETE_OFFSETS, co.DeleteOffsetsRequest(group_id=name, all=True)),
        ):
            await refused(s.ask_group(name, spec, request), errors.InvalidGroupIdError)
    await refused(
        s.commit_offset(f"{place.topic}.g", place, 1, member="m" * (1 << 20), epoch=1), errors.InvalidRequestError
    )


@row(81, says="names that would act as paths or as ends of ranges in the keys of the metadata store")
async def key_injection(s: Any, place: Place) -> None:
    async def names() -> list[str]:
        async with s.client() as client:
            return sorted(topic.name for topic in await client.admin.list_topics())

    before = await names()
    for name in ("a/../b", "/oncelog/topics/x", "../controller", "x/", "x\0", "x\xff", "*", "%2f"):
        asked = pb.CreateTopicRequest(topic=name, partitions=1, timeout_ms=1_000)
        await refused(s.call(await s.controller(), methods.CREATE_TOPIC, asked), errors.InvalidTopicError)
        await refused(
            s.call(await s.controller(), methods.DELETE_TOPIC, pb.DeleteTopicRequest(topic=name)), errors.CallerError
        )
        if name.isprintable():  # as a group it is only text, in a value
            await s.commit_offset(name, place, 1)
            assert await s.committed_offset(name, place) == 1
            assert await s.committed_offset(f"{name}x", place) is None
    assert await names() == before
    await asyncio.sleep(0)
