"""How long the turn of an arriving request lasts, by what came meanwhile."""

from __future__ import annotations

import pytest

from oncelog_runtime.core.reading_turn import ASK_AGAIN_S, FIND_S, TURN_S, UNFINISHED_BYTES_PER_S, ReadingTurn

BEGAN_S = 100.0
A_SECOND = UNFINISHED_BYTES_PER_S


def test_a_turn_lasts_at_least_so_long_for_each_request_that_is_being_read() -> None:
    assert [ReadingTurn(BEGAN_S, reading, 0).lasts_s for reading in (1, 2, 3)] == [TURN_S, 2 * TURN_S, 3 * TURN_S]


@pytest.mark.parametrize(
    ("before", "unfinished", "passed_s", "goes_on_s"),
    [
        (0, 0, 0.01, 0.0),
        (0, A_SECOND, 0.01, ASK_AGAIN_S),
        (0, A_SECOND, 0.97, 0.03),
        (0, A_SECOND, 1.0, 0.0),
        (0, A_SECOND, 5.0, 0.0),
        (9 * A_SECOND, 9 * A_SECOND, 0.02, 0.0),
        (9 * A_SECOND, 10 * A_SECOND, 0.98, 0.02),
        (A_SECOND, 0, 0.02, 0.0),
        (0, None, 0.01, ASK_AGAIN_S),
        (0, None, FIND_S, 0.0),
    ],
)
def test_a_turn_goes_on_until_its_own_bytes_could_have_come(
    before: int, unfinished: int | None, passed_s: float, goes_on_s: float
) -> None:
    turn = ReadingTurn(BEGAN_S, 1, before)
    assert turn.goes_on_s(BEGAN_S + passed_s, unfinished) == pytest.approx(goes_on_s, abs=1e-9)
