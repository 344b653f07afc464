"""Who may write where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog.errors import ClusterAuthorizationError, InvalidTopicError
from oncelog_partition_leader.service import _check_writer
from oncelog_runtime import listeners
from oncelog_runtime.call_context import CALL, CallInfo
from oncelog_runtime.cluster import OFFSETS_TOPIC, SHARD_WRITER_BASE, TRANSACTION_TOPIC


def header(producer_id: int) -> Any:
    return cast(Any, SimpleNamespace(producer_id=producer_id))


@pytest.fixture
def came_by(request: pytest.FixtureRequest) -> Any:
    def set_listener(name: str) -> None:
        token = CALL.set(CallInfo("peer", listener=name))
        request.addfinalizer(lambda: CALL.reset(token))

    return set_listener


@pytest.mark.parametrize("listener", listeners.NAMES)
def test_an_id_of_a_shard_opens_its_topic_only_to_those_inside(came_by: Any, listener: str) -> None:
    came_by(listener)
    for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC):
        if listener == listeners.INTERNAL:
            _check_writer(topic, header(SHARD_WRITER_BASE))
        else:
            with pytest.raises(ClusterAuthorizationError, match=f"this is the {listener} listener"):
                _check_writer(topic, header(SHARD_WRITER_BASE))
    _check_writer("orders", header(7))


def test_each_topic_has_writers_of_its_kind() -> None:
    for topic, producer_id in ((TRANSACTION_TOPIC, 7), (TRANSACTION_TOPIC, -1), ("orders", SHARD_WRITER_BASE)):
        with pytest.raises(InvalidTopicError):
            _check_writer(topic, header(producer_id))
