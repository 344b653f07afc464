"""What tests of producers share: numbered records, work beside the test, and where an error was raised."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable
from typing import Any

from tests.unit.sdk.client.fake_cluster import TOPIC


async def send_all(producer: Any, values: range, partition: int = 0) -> list[Any]:
    """The deliveries of these numbers, sent as text."""
    return [await producer.send(TOPIC, b"%d" % i, partition=partition) for i in values]


def numbers(values: range) -> list[bytes]:
    """What `send_all` sends."""
    return [b"%d" % i for i in values]


def functions_of(error: BaseException) -> list[str]:
    """Names of the functions through which it was raised, as its traceback has them."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def started(work: Awaitable[Any]) -> asyncio.Task[Any]:
    """The work as a task that runs beside the test."""
    return asyncio.ensure_future(work)  # type: ignore[return-value]
