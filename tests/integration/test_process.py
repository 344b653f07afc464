"""`Client.process` in real processes: one is killed, one frozen for longer than a session, and a coordinator killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from oncelog.sync import Client
from tests.hostile.process_faults import GROUP, SESSION_S, Run, new_cluster


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Waits until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.05)


def test_every_input_is_in_the_output_once_and_in_order_whoever_dies(tmp_path_factory: pytest.TempPathFactory) -> None:
    with new_cluster(tmp_path_factory.mktemp("process"), brokers=1) as cluster:
        run = Run(cluster)
        with run.going(), Client(cluster.bootstrap_servers) as client:

            def committed() -> int:
                return sum(at.offset for at in client.admin.describe_group(GROUP).offsets)

            until(lambda: committed() > 0)
            run.kill_member(0)
            thawing = threading.Thread(target=run.freeze_member, args=(1, SESSION_S + 2))
            thawing.start()
            address = client.admin.describe_group(GROUP).listing.coordinator
            [name] = [name for name, process in cluster.processes.items() if process.address == address]
            run.kill_service(name, 1)
            thawing.join()
            before = committed()
            until(lambda: committed() > before)
            verdict = run.verdict()
    assert verdict.is_right, verdict
