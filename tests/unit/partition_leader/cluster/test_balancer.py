"""What operators are told when the controller's write did not happen."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from oncelog.errors import RequestTimedOutError
from oncelog_partition_leader.cluster.balancer import Balancer
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.adapters.system import SystemClock
from oncelog_runtime.metadata.cluster_keys import Broker, broker_key, decommission_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import KeyValue


async def _in_vain(*_: object) -> bool:
    return False


@pytest.mark.parametrize("out_of_use", [True, False])
def test_a_change_that_was_not_written_is_not_reported_as_done(out_of_use: bool) -> None:
    view = ClusterView()
    for number in (1, 2):
        view.learn([KeyValue(broker_key(number), Broker("b:1", "b:1", "n").encode(), number)])
    if out_of_use:
        view.learn([KeyValue(decommission_key(1), b"{}", 3)])
    balancer = Balancer(BrokerConfig(), view, SystemClock(), cast(Any, None), _in_vain)
    with pytest.raises(RequestTimedOutError, match="try again"):
        asyncio.run(balancer.recommission([1]) if out_of_use else balancer.decommission([1]))
