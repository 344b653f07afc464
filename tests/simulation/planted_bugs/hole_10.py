"""A duplicate is answered at once, whether or not its first copy is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from oncelog_partition_leader.core.producers.decisions import Duplicate
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    def at_once(original: Any) -> Any:
        def decide(self: Any, *args: Any) -> Any:
            decision = original(self, *args)
            return replace(decision, stable_after=0) if isinstance(decision, Duplicate) else decision

        return decide

    with replaced(ProducerStates, "decide", at_once):
        yield


PLANT = plant(
    10,
    "a duplicate is answered like its first copy: when it is committed",
    "producers/test_producer_retries::test_a_duplicate_is_answered_like_its_first_copy",
)(_planted)
