"""The leader's side of replication: the links of this broker to its followers, for all partitions that it leads.

Rule 1: there is one link (`follower_link`) per follower broker and flush mode: fsync partitions have a link of their own, so
        that no other partition waits for the follower's disk.
Rule 2: a partition's session with a follower lasts as long as its leadership at most.
"""

from __future__ import annotations

from oncelog.types import BrokerRef
from oncelog_partition_leader.partition.leadership import Leadership
from oncelog_partition_leader.replication.follower_link import FollowerLink, LinkHost
from oncelog_runtime.process.tasks import TaskOwner


class Replicator:
    """All links of this broker to its followers."""

    def __init__(self, host: LinkHost, tasks: TaskOwner) -> None:
        self._host = host
        self._tasks = tasks
        self._links: dict[tuple[int, bool], FollowerLink] = {}
        self._of: dict[Leadership, tuple[FollowerLink, ...]] = {}

    def began(self, leadership: Leadership) -> None:
        """Starts to replicate to the followers of a leadership."""
        links = tuple(self._link(broker, leadership.topic_config.fsync) for broker in leadership.replicas.followers)
        self._of[leadership] = links
        for link in links:
            link.add(leadership)

    def ended(self, leadership: Leadership) -> None:
        """Stops replicating to the followers of a leadership."""
        for link in self._of.pop(leadership, ()):
            link.remove(leadership)

    def appended(self, leadership: Leadership) -> None:
        """Sends new data, or a question, to all followers."""
        for link in self._of.get(leadership, ()):
            link.appended(leadership)

    def watermark_moved(self, leadership: Leadership) -> None:
        """Sends the new high watermark to all followers."""
        for link in self._of.get(leadership, ()):
            link.watermark_moved(leadership)

    def restart(self, leadership: Leadership, broker_id: int) -> None:
        """Begins a new session with one follower."""
        for link in self._of.get(leadership, ()):
            if link.broker_id == broker_id:
                link.restart(leadership)

    def incarnation_is(self, ref: BrokerRef) -> None:
        """Begins new sessions with a broker that has a new incarnation."""
        for (broker_id, _), link in self._links.items():
            if broker_id == ref.broker_id:
                link.incarnation_is(ref)

    def _link(self, broker_id: int, fsync: bool) -> FollowerLink:
        link = self._links.get((broker_id, fsync))
        if link is None:
            name = "fsync" if fsync else "memory"
            link = self._links[broker_id, fsync] = FollowerLink(self._host, broker_id, self._tasks, name)
        return link
