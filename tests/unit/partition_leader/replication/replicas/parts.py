"""The parts of one broker's replication over a simulated place; what they call in other parts is noted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from oncelog.errors import OncelogError
from oncelog.types import BrokerRef, PartitionId
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.cluster_context import ClusterContext
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.core.log.disk_levels import Thresholds
from oncelog_partition_leader.log.data_dir.disk_room import DiskRoom
from oncelog_partition_leader.log.data_dir.disk_watch import DiskWatch
from oncelog_partition_leader.log.topic_config import TopicConfig
from oncelog_partition_leader.partition.broker_metrics import BrokerMetrics
from oncelog_partition_leader.replication.observe.metrics_observer import MetricsObserver
from oncelog_partition_leader.replication.replicas.broker_host import BrokerHost
from oncelog_partition_leader.replication.replicas.local_replicas import LocalReplicas, ReplicationContext
from oncelog_runtime.serving.signpost import Signpost
from tests.unit.partition_leader.cluster_place import P0, Place


class Noting(SimpleNamespace):
    """A part that notes each call: its name and its first argument."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def note(first: Any = None, *_more: Any, **_named: Any) -> None:
            self.calls.append((name, first))

        return note


def noting(**parts: Any) -> Any:
    return Noting(calls=[], **parts)


class Parts:
    """Broker 0. `told`: what its host told the owner of replicas."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.told: list[Any] = []
        self.renewals: list[str] = []
        self.silent: list[BrokerRef] = []
        config = BrokerConfig(node_id=0)
        metrics = BrokerMetrics(place.ports.metrics)
        registration: Any = SimpleNamespace(ref=None, renew=self.renewals.append)
        contacts: Any = SimpleNamespace(
            silent=lambda _for_ms: self.silent,
            is_gone=lambda ref: ref.broker_id == 2,
            cluster_now_ms=Contacts(config, place.view, place.clock).cluster_now_ms,
        )
        cluster: Any = ClusterContext(
            place.view, registration, contacts, Signpost(place.view, client_listener=False, broker_id=0)
        )
        registration.ref = place.me()
        self.context = ReplicationContext(
            config,
            place.ports,
            cluster,
            place.tasks,
            place.bugs,
            MetricsObserver(metrics),
            DiskWatch(place.clock, 1_000, lambda _stalled: None),
            DiskRoom(place.ports.disk, place.clock, Thresholds(0, 0)),
            TopicConfig(),
        )
        self.here = LocalReplicas()
        self.coordinators = noting()
        self.host = BrokerHost(
            self.context, self.here, self, self.coordinators, metrics, lambda _ref, _error: None, lambda _topic: 1
        )

    def apply(self, partition_id: PartitionId) -> None:
        self.told.append(("apply", partition_id))

    def log_failed(self, partition: Any, error: OncelogError) -> None:
        self.told.append(("log failed", partition))

    async def lower_claim(self, partition: Any) -> None:
        self.told.append(("lower claim", partition))

    def replica(self, **more: Any) -> Any:
        """A replica of P0, in its place."""
        given: dict[str, Any] = {
            "id": P0,
            "topic": "t",
            "failed": None,
            "leadership": None,
            "isr_seen": None,
            "log": SimpleNamespace(failed=None, wants_sync=False, directory=f"logs/t-{P0.topic_id}-0"),
            "exclusive": SimpleNamespace(locked=lambda: False),
        }
        self.here.partitions[P0] = made = noting(**{**given, **more})
        return made
