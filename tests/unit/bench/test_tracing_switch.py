"""Tracing taken out of the objects of a process, and what is concluded from pairs of neighbours."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

from bench.tracing_switch import ROOT, row
from tests.spans import recording_tracer


class Holder:
    """Like any object of a service."""

    __slots__ = ("__weakref__", "_tracer", "other")

    def __init__(self, tracer: object) -> None:
        self._tracer = tracer
        self.other = tracer


def switch() -> Any:
    path = Path(ROOT / "bench" / "switch" / "sitecustomize.py")
    spec = importlib.util.spec_from_file_location("the_switch", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_holder_of_the_tracer_loses_it_and_gets_it_back() -> None:
    tracer, _ = recording_tracer()
    holders = [Holder(tracer), Holder(None)]
    module = switch()
    module._off(0, None)
    try:
        assert [holder._tracer for holder in holders] == [None, None]
        assert holders[0].other is tracer
        assert tracer._tracer is not None, "a tracer's own is not a holder"
    finally:
        module._on(0, None)
    assert [holder._tracer for holder in holders] == [tracer, None]


def test_a_cost_shows_in_noise_that_hits_both() -> None:
    draw = random.Random(1)
    pairs = []
    for _ in range(4_000):
        speed = draw.uniform(0.5, 2)
        pairs.append((1.02 * speed * draw.gauss(1, 0.1), speed * draw.gauss(1, 0.1)))
    text = row("record", pairs)
    assert "4000 pairs" in text
    low, high = (
        float(word.strip("()")) for word in (text.split("(")[1].split()[0], text.split("to ")[1].split(")")[0])
    )
    assert 0 < low < 2 < high < 4
