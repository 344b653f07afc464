"""What all tests share: no test is judged by how long it takes, since a busy machine is no bug; and each test has the markers
of the cases that it shows (`pytest -m case_B30`): from the tables of `tests/conformance/table`, and from its own
`@pytest.mark.case("B30", "hole 7", "S12")`.

Where tests run in several processes (`pytest -n 2`), `tests/distributing.py` says which of them run beside each other.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from oncelog.trace.trace_context import TRACEPARENT
from tests.conformance.table.everything import ALL, STORAGE_FAULTS, markers_by_test, markers_of
from tests.distributing import Schedule, encodable

with pytest.MonkeyPatch.context() as patched:
    # Before a test imports it: servers of tests read their sockets as the services do, clients as applications do (0080).
    patched.setenv("GRPC_EXPERIMENTS", os.environ.get("GRPC_EXPERIMENTS", "-event_engine_listener"))
    importlib.import_module("grpc")
settings.register_profile("oncelog", deadline=None)
settings.load_profile("oncelog")

_TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Makes the markers known."""
    config.addinivalue_line("markers", "case(*numbers): the cases that the test shows, beside those of the tables")
    for fault in STORAGE_FAULTS:
        config.addinivalue_line("markers", f"case_{fault}: docs/internals/storage.md#{fault.lower()}")
    for number, case in ALL:
        for marker in markers_of(number):
            config.addinivalue_line("markers", f"{marker}: {case.title}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that a table names, or that name a case. An unknown case is an error, as an unknown marker is."""
    markers = markers_by_test()
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(_TESTS):
            test = f"{item.path.relative_to(_TESTS).as_posix()}::{item.originalname}"
            for marker in (*markers.get(test, ()), *_own_markers(item)):
                item.add_marker(marker)


@pytest.fixture(scope="session", autouse=True)
def grpc_keeps_its_thread() -> None:
    """Keeps gRPC's polling thread to the end of the process. Otherwise it ends with the last channel, wherever the garbage
    collector finds that, and gRPC waits there for the thread: a run once stood still so (grpc/grpc issue 22365).
    """
    from grpc import aio

    async def keep() -> None:
        aio.init_grpc_aio()

    asyncio.run(keep())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spares the garbage collector what lives to the end of the run: fourteen thousand tests, and all their modules."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Fails a test after which the next one of its process would work for a trace of its own."""
    yield
    left = TRACEPARENT.get()
    TRACEPARENT.set("")
    assert left == "", "the test has to reset TRACEPARENT, as what it tests does"


@pytest.hookimpl(optionalhook=True)  # nobody asks for it without `-n`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule:
    """Distributes the tests of a run in several processes."""
    return Schedule(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Lets a report travel to the process that prints it, whatever the test wrote."""
    return encodable((yield))


def _own_markers(item: pytest.Function) -> list[str]:
    """The markers of the cases that the test itself names."""
    numbers = [number for mark in item.iter_markers("case") for number in mark.args]
    for number in numbers:
        if not markers_of(number):
            raise pytest.UsageError(f"{item.nodeid}: {number!r} is no case: write B30, S12 or hole 7")
    return [marker for number in numbers for marker in markers_of(number)]
