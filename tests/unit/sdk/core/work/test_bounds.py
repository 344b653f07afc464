"""What is asked about the records of a channel is in its range, or refused by a name that says what is expected."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.core.work.bounds import CLAIMED_MAX, OFFSET_MAX, check_reason, claimed_offsets, whole_number


class Seven:
    """Stands for a number, as those of numpy do."""

    def __index__(self) -> int:
        return 7


def test_a_number_within_its_bounds_is_an_int() -> None:
    assert [whole_number("n", value) for value in (0, OFFSET_MAX)] == [0, OFFSET_MAX]
    found = whole_number("n", Seven(), 1, 9)
    assert (found, type(found)) == (7, int)


@pytest.mark.parametrize("value", [0, 10, -1, 2**70, "5", 5.0, True, None, [5]])
def test_what_is_out_of_bounds_or_no_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(errors.ConfigError, match="`n` is a whole number from 1 to 9"):
        whole_number("n", value, 1, 9)


def test_offsets_are_offsets_and_not_too_many() -> None:
    assert claimed_offsets(iter([3, Seven()])) == [3, 7]  # type: ignore[list-item]
    assert len(claimed_offsets(range(CLAIMED_MAX))) == CLAIMED_MAX
    for wrong in (range(CLAIMED_MAX + 1), [-1], [2**63], "12"):
        with pytest.raises(errors.ConfigError):
            claimed_offsets(wrong)  # type: ignore[arg-type]


def test_a_reason_is_text_of_bounded_length() -> None:
    assert check_reason("x" * 1_024) == "x" * 1_024
    for wrong in ("x" * 1_025, "\ud800", None, b"why"):
        with pytest.raises(errors.InvalidRequestError, match="a reason"):
            check_reason(wrong)  # type: ignore[arg-type]
