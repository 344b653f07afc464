"""However many records are judged by a moment, each partition's leader is looked up once."""

from __future__ import annotations

from oncelog.client.home.context import now_ms
from oncelog.client.routing.metadata import Leader
from oncelog.client.work.moment import Moment
from oncelog_runtime.sim import SimLoop


def test_each_leader_is_looked_up_once() -> None:
    asked: list[int] = []

    def leader_of(partition: int) -> Leader:
        asked.append(partition)
        return Leader("b0", 7) if partition == 0 else Leader(None, -1)

    async def work() -> None:
        moment = Moment(leader_of)
        assert moment.now_ms == now_ms()
        assert asked == []
        for _ in range(3):
            assert (moment.leader(0), moment.leader_epoch(0)) == ("b0", 7)
            assert (moment.leader(1), moment.leader_epoch(1)) == ("", -1)
        assert asked == [0, 1]

    SimLoop(1).run(work())
