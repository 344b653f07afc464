"""Every bound is above zero."""

from __future__ import annotations

import pytest

from oncelog_coordinator.core.limits import Limits


def test_limits_are_above_zero() -> None:
    with pytest.raises(ValueError):
        Limits(max_partitions=0)
