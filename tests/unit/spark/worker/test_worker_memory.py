"""Spark's workers collect garbage after every task: what is loaded for good must not be looked at each time."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from pyspark_oncelog.worker import worker_memory


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each call of `gc.freeze` left in sight, in a process that takes itself for a worker."""
    found: list[int] = []

    def freeze() -> None:
        found.append(len(sys.modules))

    monkeypatch.setattr(worker_memory, "is_worker", lambda: True)
    monkeypatch.setattr(worker_memory, "_modules_frozen", 0)
    monkeypatch.setattr(gc, "freeze", freeze)
    return found


def test_modules_are_frozen_once_and_again_when_more_were_loaded(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_memory.freeze_modules()
    worker_memory.freeze_modules()
    assert len(freezes) == 1
    monkeypatch.setitem(sys.modules, "loaded_later", pytest)
    worker_memory.freeze_modules()
    assert len(freezes) == 2


def test_a_driver_is_left_alone() -> None:
    before = gc.get_freeze_count()
    worker_memory.freeze_modules()
    assert gc.get_freeze_count() == before


def test_after_it_a_collection_looks_at_next_to_nothing() -> None:
    code = """
import gc
import pyarrow
from pyspark_oncelog.worker import worker_memory
worker_memory.is_worker = lambda: True
before = len(gc.get_objects())
worker_memory.freeze_modules()
print(before, len(gc.get_objects()))
"""
    before, after = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.split()
    assert int(after) * 20 < int(before)
