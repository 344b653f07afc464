"""Every remote method says who may call it."""

from __future__ import annotations

from oncelog.wire import method_audience, methods


def test_every_method_has_one_row() -> None:
    assert set(methods.ALL) == method_audience.CLIENT | method_audience.INTERNAL
    assert not method_audience.CLIENT & method_audience.INTERNAL
