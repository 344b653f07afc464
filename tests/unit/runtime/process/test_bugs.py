"""Faults of ours are counted, reported once in a while, and end nothing that must go on."""

from __future__ import annotations

import asyncio

from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.observability.metrics import Family, NodeMetrics
from oncelog_runtime.ports import KeyValue
from oncelog_runtime.process.bugs import Bugs, UnexpectedError, keep_running
from oncelog_runtime.sim import SimWorld


def counted(metrics: NodeMetrics) -> dict[str, object]:
    families = [family for family in metrics.families() if isinstance(family, Family)]
    return {labels: value for family in families for labels, value in family.rows if value}


def test_each_kind_is_reported_once_a_minute_and_counted_each_time() -> None:
    with SimWorld("bugs") as world:
        metrics, clock = NodeMetrics(), world.node("a").clock
        bugs = Bugs(metrics, clock)

        async def main() -> None:
            for _ in range(10):
                told = bugs.met("open", ZeroDivisionError("x"), "orders-0")
                assert not told.retriable
            bugs.met("open", KeyError("y"))
            bugs.met("task", ZeroDivisionError("x"))
            assert len(world.loop.errors) == 3
            await asyncio.sleep(61)
            bugs.met("open", ZeroDivisionError("x"))
            assert len(world.loop.errors) == 4
            report = world.loop.errors[0]
            assert isinstance(report, UnexpectedError), "no bare AssertionError: that would end the process"
            assert isinstance(report.__cause__, ZeroDivisionError)
            assert counted(metrics) == {'where="open"': 12, 'where="task"': 1}
            world.loop.errors.clear()

        world.run(main())


def test_a_loop_that_must_not_end_is_begun_anew_with_growing_pauses() -> None:
    with SimWorld("bugs") as world:
        bugs = Bugs(NodeMetrics(), world.node("a").clock)
        began: list[float] = []

        async def run() -> None:
            began.append(world.loop.time())
            assert len(began) == 6, "a fault"

        async def main() -> None:
            await keep_running(bugs, run, "tick")
            assert len(world.loop.errors) == 1
            world.loop.errors.clear()

        world.run(main())
        pauses = [round(two - one, 3) for one, two in zip(began, began[1:], strict=False)]
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_a_listener_that_fails_keeps_no_other_from_hearing() -> None:
    view, faults, heard = ClusterView(), list[Exception](), list[str]()
    view.on_fault = faults.append

    def broken(_keys: list[str]) -> None:
        raise ZeroDivisionError

    view.listen(broken)
    view.listen(heard.extend)
    key = "/oncelog/coordinators/a:1"
    view.learn([KeyValue(key, b"{}", 1)])
    assert heard == [key]
    assert [type(fault) for fault in faults] == [ZeroDivisionError]
