"""Effects: a leadership returns them, and its partition carries them out, in the order in which they were returned.

Rule: an effect is a value. The piece that returned it has already changed its own state, and waits for no outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.errors import OncelogError
from oncelog_partition_leader.core.appends.commands import AppendBatch, Command
from oncelog_partition_leader.core.producers.decisions import NeedsEnrolment


class Finish(NamedTuple):
    """Give the command the answer that it holds."""

    command: Command


class Fail(NamedTuple):
    """Give the command an error: it is in the log and its outcome is unknown, or its leadership has ended."""

    command: Command
    error: OncelogError


class Refuse(NamedTuple):
    """Give the command an error, and count it: the command was refused, or could not be appended."""

    command: Command
    error: OncelogError


class Committed(NamedTuple):
    """The high watermark has moved here: answer these commands, and tell readers and followers."""

    commands: Sequence[Command]
    high_watermark: int


class SyncLog(NamedTuple):
    """Sync the log soon: acknowledgements wait for the disk."""


class SendToFollowers(NamedTuple):
    """Send new data, or a question, to the followers."""


class LookAtIsr(NamedTuple):
    """Look whether a follower may join the ISR, or has to leave it."""


class RestartSession(NamedTuple):
    """Begin a new session with a follower that is not in the ISR any more."""

    broker_id: int


class Enrol(NamedTuple):
    """Ask the coordinator to enrol this partition; the outcome comes back as `Leadership.enrolled`."""

    command: AppendBatch
    needs: NeedsEnrolment


class AppendFailed(NamedTuple):
    """The disk refused an append: nothing of it is in the log."""

    error: OncelogError


class LacksRoom(NamedTuple):
    """Let another replica lead: this disk keeps its last room for markers and the cluster's own logs."""


class Broken(NamedTuple):
    """Fail the log: the leadership's state in memory may contradict it."""


Effect = (
    Finish
    | Fail
    | Refuse
    | Committed
    | SyncLog
    | SendToFollowers
    | LookAtIsr
    | RestartSession
    | Enrol
    | AppendFailed
    | LacksRoom
    | Broken
)
