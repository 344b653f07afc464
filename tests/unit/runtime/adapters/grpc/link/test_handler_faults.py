"""A handler's own fault is an error for its caller, and a line in the log once a minute."""

from __future__ import annotations

import asyncio
import logging

import pytest

from oncelog import errors
from oncelog_runtime.adapters.grpc.link import handler_faults
from oncelog_runtime.sim import SimLoop


def test_each_kind_is_reported_once_a_minute_and_answered_each_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_faults, "_reported", {})
    counts: list[int] = []

    async def work() -> None:
        await asyncio.sleep(100)
        for error, pause_s in ((KeyError("a path"), 1), (KeyError("again"), 1), (ValueError(), 60), (KeyError(), 0)):
            found = handler_faults.unexpected(error, "A.B")
            assert isinstance(found, errors.UnknownServerError)
            assert "path" not in str(found)
            counts.append(len(caplog.records))
            await asyncio.sleep(pause_s)

    with caplog.at_level(logging.ERROR):
        SimLoop(1).run(work())  # type: ignore[abstract]
    assert counts == [1, 1, 2, 3]
