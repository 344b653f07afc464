"""Every bad input of the list, by number, against the cores: a simulated cluster of production classes, without sockets."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.script import _Cluster
from tests.hostile_inputs.hands import ClientHands, nothing_comes_of_it
from tests.hostile_inputs.rows import NUMBERS, Kind, Row, rows_of

CLIENTS = ("User:health", "User:script", *(f"User:client-{number}" for number in range(1, 20)))


def test_every_number_of_the_list_has_a_row() -> None:
    shown = Counter(number for kind in Kind for row in rows_of(kind) for number in row.numbers)
    assert [number for number in NUMBERS if not shown[number]] == []


@pytest.mark.parametrize("row", rows_of(Kind.CORE), ids=lambda row: row.name)
def test_a_core(row: Row) -> None:
    row.attempt()


@pytest.mark.parametrize("row", rows_of(Kind.CLUSTER), ids=lambda row: row.name)
def test_a_cluster(row: Row) -> None:
    with _Cluster(1, {}, doors=True, super_users=CLIENTS) as started:

        async def whole() -> None:
            await started.healthy()
            hands = ClientHands(started)
            lives = hands.lives()
            await nothing_comes_of_it(hands, row)
            assert hands.lives() == lives, "no shard lost its life"
            hands.check()

        started.world.run(whole())
