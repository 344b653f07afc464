"""What etcd says about all partitions, read without a broker, so that a measurement costs no broker anything.

Rule: only keys that have changed since the last look are sent, and one look is a few milliseconds of etcd.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from oncelog_runtime.metadata.cluster_keys import BROKERS, PARTITIONS, Partition

_POLL_S: Final = 0.02


def _b64(key: str) -> str:
    return base64.b64encode(key.encode()).decode()


def _after(prefix: str) -> str:
    """The end of the range of keys that begin with this."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


@dataclass(slots=True)
class PartitionStates:
    """The partitions of a cluster, as etcd at this address (host:port) holds them."""

    etcd_address: str
    partitions: dict[str, Partition] = field(default_factory=dict)
    _seen_revision: int = 0

    def look(self) -> None:
        """Takes over what has changed. Deleted partitions are kept: no measurement deletes any."""
        answer = self._range(PARTITIONS, self._seen_revision + 1)
        for item in answer.get("kvs", ()):
            key = base64.b64decode(item["key"]).decode()
            self.partitions[key] = Partition.decode(base64.b64decode(item["value"]))
        self._seen_revision = int(answer["header"]["revision"])

    def incarnations(self) -> dict[int, int]:
        """The incarnation of each registered broker."""
        found = self._range(BROKERS, 0).get("kvs", ())
        return {int(base64.b64decode(one["key"]).rpartition(b"/")[2]): int(one["mod_revision"]) for one in found}

    def _range(self, prefix: str, since_revision: int) -> dict[str, Any]:
        question = {"key": _b64(prefix), "range_end": _b64(_after(prefix)), "min_mod_revision": str(since_revision)}
        request = urllib.request.Request(
            f"http://{self.etcd_address}/v3/kv/range",
            json.dumps(question).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    # ------------------------------------------------------------ questions

    def led_by(self, broker_id: int) -> int:
        """Number of partitions that a broker leads."""
        return sum(one.leader is not None and one.leader.broker_id == broker_id for one in self.partitions.values())

    def led(self) -> int:
        """Number of partitions that have a leader."""
        return sum(one.leader is not None for one in self.partitions.values())

    def whole(self, brokers: int) -> int:
        """Number of partitions whose ISR has a member for each replica, of `brokers` at most."""
        return sum(len(one.isr) == min(brokers, len(one.replicas)) for one in self.partitions.values())

    def wait_until(self, holds: Callable[[PartitionStates], bool], timeout_s: float = 300) -> float:
        """Returns when that holds, with the seconds that it took. Raises `TimeoutError`."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < timeout_s:
            self.look()
            if holds(self):
                return time.monotonic() - began_s
            time.sleep(_POLL_S)
        raise TimeoutError(f"not after {timeout_s:.0f} s: {self.led()} of {len(self.partitions)} partitions are led")
