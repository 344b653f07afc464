"""The measurement of a coordinator's memory applies records that the cores accept."""

from __future__ import annotations

import pytest

from bench import coordinator_memory


@pytest.mark.parametrize("kind", coordinator_memory.KINDS)
def test_every_kind_is_a_legal_state(kind: str) -> None:
    make, records = coordinator_memory.KINDS[kind]
    table = make()
    for number in range(200):
        for record in records(number):
            table.apply(table.decode(record.key, record.encode()))
    table.loaded(0)
    table.check()


def test_a_kind_has_bytes_in_the_log() -> None:
    _, log = coordinator_memory.measure("a group with one offset", 100)
    assert 100 < log < 500
