"""A node's clock: its own skew and drift, steps on command, and a monotonic half that never goes back."""

from __future__ import annotations

import asyncio

from oncelog_runtime.sim import FaultPlan, SimLoop, SimWorld
from oncelog_runtime.sim.clock import EPOCH_MS, SimClock


def test_clocks_differ_by_node_and_step() -> None:
    with SimWorld(3, FaultPlan(skew_max_ms=5_000, drift_max=0.01)) as world:
        nodes = [world.node(f"n{i}") for i in range(4)]
        world.run(asyncio.sleep(100))
        assert len({node.ports.clock.now_ms() for node in nodes}) == 4
        assert len({node.ports.clock.monotonic_ms() for node in nodes}) == 4
        before = nodes[0].ports.clock.now_ms(), nodes[0].ports.clock.monotonic_ms()
        nodes[0].clock.step(-1_000)
        assert (nodes[0].ports.clock.now_ms(), nodes[0].ports.clock.monotonic_ms()) == (before[0] - 1_000, before[1])


def test_a_drift_makes_time_pass_faster_and_skew_moves_the_wall_clock_alone() -> None:
    with SimLoop() as loop:  # type: ignore[abstract]
        right, fast = SimClock(loop), SimClock(loop, skew_ms=500, drift=0.01)
        assert (right.now_ms(), right.monotonic_ms()) == (EPOCH_MS, 0)
        assert (fast.now_ms(), fast.monotonic_ms()) == (EPOCH_MS + 500, 0)
        loop.run(asyncio.sleep(100))
        assert (right.now_ms(), right.monotonic_ms()) == (EPOCH_MS + 100_000, 100_000)
        assert (fast.now_ms(), fast.monotonic_ms()) == (EPOCH_MS + 101_500, 101_000)
