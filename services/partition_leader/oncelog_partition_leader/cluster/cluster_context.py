"""A broker's knowledge of its cluster: the parts that all other parts ask, given to them as one object."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.cluster.registration import Registration
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.serving.signpost import Signpost


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """See the module. One per broker."""

    view: ClusterView
    """This broker's view of etcd."""
    registration: Registration
    """This broker's own key in etcd, with its id and incarnation."""
    contacts: Contacts
    """Which other brokers are heard."""
    signpost: Signpost
    """Where clients are sent that have come to the wrong broker."""

    def me(self) -> BrokerRef:
        """This process's incarnation; 0 = not registered yet."""
        return self.registration.ref
