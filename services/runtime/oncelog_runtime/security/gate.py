"""Checks the rights of a caller before its request reaches the handler; the only place that does so.

Rule 1: the row of the method decides (`core/security/method_table.py`); a caller without `Access` is one of the
        cluster's services, or access rules are off.
Rule 2: a request that is refused as a whole never reaches the handler. Refused items of a request are removed before
        the handler sees it, and their errors are put in their places in the answer.
Rule 3: a request whose topics are all allowed costs one look into a dictionary for each of its partitions.
Rule 4: a request that a broker forwards is checked again, with the rights of the client that it names
        (`topic_access.adopt_caller`).
Rule 5: every refusal is counted and written to the audit log, and so is every administrative call that was allowed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from google.protobuf.message import Message

from oncelog import errors
from oncelog.ports import Handler
from oncelog.types import Buffer
from oncelog.wire.methods import MethodSpec, Rep, Req
from oncelog.wire.wire_errors import to_detail
from oncelog_runtime.core.security.access import Access, Decided
from oncelog_runtime.core.security.acl import Operation, ResourceType
from oncelog_runtime.core.security.method_table import TABLE, Alternatives, Each, Item, Question, Row
from oncelog_runtime.ports import RpcServer
from oncelog_runtime.serving.call_context import CALL, CallInfo
from oncelog_runtime.serving.topic_access import adopt_caller

ServeOf = Callable[[Req, Buffer], Awaitable[tuple[Rep, Buffer]]]
"""Serves a method: request and payload in, answer and payload out."""
Serve = ServeOf[Any, Any]
"""One of several methods' handlers in a table, where their types differ."""
_FORWARDED_FOR: Final = "forwarded_for"
_ADMINISTRATIVE: Final = frozenset({Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS})
_ERRORS: Final[dict[ResourceType, type[errors.OncelogError]]] = {
    ResourceType.CLUSTER: errors.ClusterAuthorizationError,
    ResourceType.TOPIC: errors.TopicAuthorizationError,
    ResourceType.GROUP: errors.GroupAuthorizationError,
    ResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationError,
    ResourceType.TOKEN_APP_ID: errors.TransactionalIdAuthorizationError,
}


def handler_of(spec: MethodSpec[Req, Rep], serve: ServeOf[Req, Rep]) -> Handler:
    """Makes the handler of a method: bytes in, bytes out, and only for callers that have the rights."""
    row = TABLE.get(spec.name, None)
    is_passed_on = _FORWARDED_FOR in spec.request.DESCRIPTOR.fields_by_name

    async def handle(header: bytes, payload: Buffer) -> tuple[bytes, Buffer]:
        request = spec.decode_request(header)
        if is_passed_on and request.HasField(_FORWARDED_FOR):
            adopt_caller(getattr(request, _FORWARDED_FOR))
        call = CALL.get()
        if call is None or call.access is None:
            reply, bulk = await serve(request, payload)
            return reply.SerializeToString(), bulk
        if row is None:
            raise errors.ClusterAuthorizationError(
                f"{spec.name} has no row in the table of rights: no caller may use it"
            )
        refused = admit(spec.name, row, call, call.access, request)
        if refused:
            reply, bulk = await _serve_rest(spec, row, refused, request, payload, serve)
        else:
            reply, bulk = await serve(request, payload)
        if row.hides is not None:
            call.access.look()
            row.hides(request, reply, call.access)
        return reply.SerializeToString(), bulk

    return handle


def register(
    server: RpcServer, spec: MethodSpec[Req, Rep], serve: Callable[[Req, Buffer], Awaitable[tuple[Rep, Buffer]]]
) -> None:
    """Registers the handler of a method with a server; the types of its request and reply must be the method's."""
    server.register(spec.name, handler_of(spec, serve))


def admit(method: str, row: Row, call: CallInfo, access: Access, request: Message) -> dict[int, errors.OncelogError]:
    """Returns the refused items of a request, by their number; none = everything is allowed. Raises if the whole is
    refused.
    """
    access.look()
    if row.asks is not None:
        acts = []
        for alternatives in row.asks(request):
            if not _holds(alternatives, access):
                _record(call, method, alternatives[0], allowed=False)
                raise refusal_of(alternatives[0], access)
            if alternatives[0].operation in _ADMINISTRATIVE:
                acts.append(alternatives[0])
        for act in acts:
            _record(call, method, act, allowed=True)
    each = row.each
    if each is None or (each.applies is not None and not each.applies(request)):
        return {}
    return _refused_items(method, each, call, access, getattr(request, each.field))


def _holds(alternatives: Alternatives, access: Access) -> bool:
    return any(question.holds(access) for question in alternatives)


def _refused_items(
    method: str, each: Each, call: CallInfo, access: Access, items: Sequence[Item]
) -> dict[int, errors.OncelogError]:
    if not each.by_name and _all_known(each, access.remembered(each.operation), items):
        return {}
    refused: dict[int, errors.OncelogError] = {}
    for number, item in enumerate(items):
        for alternatives in each.questions(item):
            if not _holds(alternatives, access):
                refused[number] = refusal_of(alternatives[0], access)
                _record(call, method, alternatives[0], allowed=False)
                break
    return refused


def _all_known(each: Each, remembered: dict[str, bool], items: Sequence[Any]) -> bool:
    """The hot path of batches: every topic is cached as allowed, and no item requires more than its topic."""
    if each.asks is None:
        return all([remembered.get(item.topic_id) for item in items])  # noqa: C419 (a generator costs twice as much)
    return all([remembered.get(item.topic_id) and not item.transactional_id for item in items])  # noqa: C419


def refusal_of(question: Question, access: Access) -> errors.OncelogError:
    """Returns the error for the caller. A topic given by its id that it may not describe is refused like an unknown one."""
    name = question.name
    if question.by_id:
        if not access.allows_topic(Operation.DESCRIBE, name):
            return errors.UnknownTopicError("no such topic, or none that you may see", topic_id=ascii(name[:64])[1:-1])
        name = access.topic_name(name) or ""
    shown = ascii(name[:256])[1:-1]
    kind = question.resource_type
    where = "the cluster" if kind is ResourceType.CLUSTER else f"{kind.lower().replace('_', ' ')} {shown!r}"
    if question.anywhere:
        where = f"any {kind.lower()}"
    who = ascii(access.principal)[1:-1]
    return _ERRORS[kind](
        f"{who} may not {question.operation} on {where}: ask for a rule (`oncelog acl add`)",
        principal=who,
        operation=str(question.operation),
        resource_type=str(kind),
        resource=shown,
    )


def _record(call: CallInfo, method: str, question: Question, *, allowed: bool) -> None:
    access = call.access
    if access is None or access.audit is None:
        return
    name = question.name
    if question.by_id:
        name = access.topic_name(name) or name
    reason = "" if allowed else access.why(question.operation, question.resource_type, name).reason
    access.audit.record(
        Decided(
            principal=access.principal,
            peer=call.peer,
            listener=call.listener,
            method=method,
            operation=str(question.operation),
            resource_type=str(question.resource_type),
            resource=name,
            allowed=allowed,
            reason=reason,
        )
    )


# ---------------------------------------------------------------- a request of which a part is refused


async def _serve_rest(
    spec: MethodSpec[Req, Rep],
    row: Row,
    refused: dict[int, errors.OncelogError],
    request: Req,
    payload: Buffer,
    serve: ServeOf[Req, Rep],
) -> tuple[Rep, Buffer]:
    """Serves the allowed items and puts the refusals in the places of the others."""
    each = row.each
    assert each is not None
    items = list(getattr(request, each.field))
    rest = spec.request()
    rest.CopyFrom(request)
    kept = getattr(rest, each.field)
    for number in sorted(refused, reverse=True):
        del kept[number]
    if spec.request_bulk:
        payload = _payload_of_rest(items, refused, payload)
    if hasattr(rest, "max_wait_ms"):
        rest.max_wait_ms = 0  # the refusals can be answered at once
    reply = spec.reply()
    bulk: Buffer = b""
    if kept or each.says_more:
        reply, bulk = await serve(rest, payload)
    if getattr(request, "acks", None) != 0:  # with acks=0 the client ignores answers about partitions
        _put_in(each, items, refused, reply)
    return reply, bulk


def _payload_of_rest(items: list[Any], refused: dict[int, errors.OncelogError], payload: Buffer) -> Buffer:
    """Returns the bytes of the allowed items. Raises `InvalidRequestError` when the lengths do not add up."""
    lengths = [item.length for item in items]
    if sum(lengths) != len(payload) or min(lengths, default=0) < 0:
        raise errors.InvalidRequestError("the lengths do not add up to the payload")
    view, position, parts = memoryview(payload), 0, []
    for number, length in enumerate(lengths):
        if number not in refused:
            parts.append(view[position : position + length])
        position += length
    return b"".join(parts)


def _put_in(each: Each, items: list[Any], refused: dict[int, errors.OncelogError], reply: Message) -> None:
    answers = getattr(reply, each.answers)
    if each.errors_only:
        for number, error in refused.items():
            added = answers.add(error=to_detail(error))
            added.partition.topic_id, added.partition.partition = items[number].topic_id, items[number].partition
            added.partition.topic = items[number].topic
        return
    served: Iterator[Any] = iter([type(answer).FromString(answer.SerializeToString()) for answer in answers])
    del answers[:]
    for number, item in enumerate(items):
        if number not in refused:
            answers.extend(islice(served, 1))
        elif each.by_name:
            answers.add(**{each.by_name: item}, error=to_detail(refused[number]))
        else:
            answers.add(topic_id=item.topic_id, partition=item.partition, error=to_detail(refused[number]))
