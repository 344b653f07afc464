"""A consumer's membership in its group decides which heartbeat goes out next and which partitions the consumer may read.

The coordinator assigns partitions; this core carries out the member's side of it (KIP-848). It has no I/O and no clock:
`next_call` gives the heartbeat to send, `answered` and `failed` take the answer or the error, and `tick` lets time pass. The
shell keeps one call in flight and asks again after each event.

A membership, step by step:

1. The first read joins: a heartbeat with epoch 0, an id that this client made, and the subscription. The answer has the
   member's epoch, the heartbeat interval and the session time-out.
2. From then on one heartbeat is always in flight. The coordinator keeps its answer back until there is news, so a new
   assignment arrives at once and an idle member costs one call per interval.
3. An assignment has a number and names everything that the member owns. The coordinator puts a partition into it only after
   the member that owned it before has let it go. A partition that stays is read without a break.
4. The next read carries the assignment out: it lets go what is missing, after committing, and begins with what is new. Then
   the heartbeat says the assignment's number, which is what the next owner waits for. Where nothing is to be let go, the
   number is said at once.
5. A member that leaves says so, and others get its partitions at once.

What can go wrong, and what this core does:

- The coordinator fails over, or a call is lost: the same heartbeat is sent again. Each one says everything that the
  coordinator needs (epoch, assignment received, assignment carried out, subscription until it was acknowledged), so a copy
  changes nothing.
- The coordinator says that it does not know this membership any more (`UnknownMemberError`, `FencedMemberEpochError`):
  everything that the member owned is another's. Reading stops at once, and the member joins again under a new id.
- No heartbeat is answered for the session time-out: the coordinator may have done the same, so this client does what it would
  do after hearing of it. The time counts from the moment at which the last answered heartbeat was sent, so this member stops
  before the coordinator can give its partitions away, as long as both clocks run equally fast.
- The caller does not read for `max_poll_interval_ms`: the member leaves, and joins again with the next read.
- The coordinator refuses the member for good (no permission, a bad pattern): the next read raises the error, and the one
  after it joins again, because an operator may have changed the cause.

Rule 1: an answer to a heartbeat that is no longer the newest is not looked at: the newer one says more, and its answer
        repeats what was missed.
Rule 2: what the member owns changes by `carried_out` and by losing everything, and in no other way.
Rule 3: a member id names one membership: after it has ended the id is never used again.
Rule 4: a member joins again only after its leave was answered or given up, or the old membership would keep its partitions.
Rule 5: two heartbeats that say the same are at least the heartbeat interval apart, also when the answer came earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from oncelog.core.consume.member_states import MEMBER_TRANSITIONS, MemberIncident, MemberState
from oncelog.errors import FencedMemberEpochError, OncelogError, UnknownMemberError
from oncelog.types import PartitionId, TopicPartition

Partitions = Mapping[PartitionId, TopicPartition]

EPOCH_JOIN: Final = 0
EPOCH_LEAVE: Final = -1
EPOCH_LEAVE_FOR_NOW: Final = -2
"""A static member that comes back: its partitions wait for it until the session time-out."""
_FIRST_HEARTBEAT_MS: Final = 1_000
"""How long the answer to a heartbeat may be kept back before the coordinator has named its interval."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member wants to read. `pattern` empty: none; `assignor` empty: as the other members say."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assignor: str = ""
    rebalance_timeout_ms: int = 0
    """How long the member may take to let partitions go; 0 = the coordinator's default."""
    instance_id: str = ""
    """The name of a static member; empty = the member is gone with its connection."""
    rack: str = ""
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One call. `version` numbers the subscriptions; `subscription` None: the coordinator has acknowledged it."""

    member_id: str
    epoch: int
    received: int
    applied: int
    version: int
    subscription: Subscription | None
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class NewAssignment:
    """Everything that the member owns from now on. `number` grows by one with each."""

    number: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The coordinator's answer. Times in ms."""

    epoch: int
    heartbeat_interval_ms: int
    session_timeout_ms: int
    assignment: NewAssignment | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The next read lets `revoked` go and begins with `added`; `partitions` is everything that the member owns then."""

    number: int
    revoked: Partitions
    added: Partitions
    partitions: Partitions


@dataclass
class _Life:
    """One membership, from its join to its end."""

    member_id: str
    epoch: int = EPOCH_JOIN
    received: int = 0
    applied: int = 0
    owned: Partitions = field(default_factory=dict)
    target: Partitions = field(default_factory=dict)
    acknowledged_version: int = 0
    proved_ms: int = 0
    """When the newest answered heartbeat was sent."""
    may_be_known: bool = False
    """True: a heartbeat was sent, so the coordinator has to be told of the end."""


class Membership:
    """See the module. `make_id` gives a member id that was never used; `pause_ms(n)` the wait after failure n.

    Its 26 methods are what the consumer, the coordinator or the clock may say, and what they ask; its fields are one
    life in the group and the call under way.
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        max_poll_interval_ms: int,
        make_id: Callable[[], str],
        pause_ms: Callable[[int], int],
    ) -> None:
        self.state = MemberState.OUTSIDE
        self._subscription = subscription
        self._version = 1
        self._max_poll_interval_ms = max_poll_interval_ms
        self._make_id = make_id
        self._pause_ms = pause_ms
        self._life = _Life(make_id())
        self._interval_ms = _FIRST_HEARTBEAT_MS
        self._session_ms = 0
        self._read_ms = 0
        self._in_flight: Heartbeat | None = None
        self._answered: Heartbeat | None = None
        self._farewell: Heartbeat | None = None
        self._sent_ms = 0
        self._failures = 0
        self._not_before_ms = 0
        self._lost: dict[PartitionId, TopicPartition] = {}
        self._refused: OncelogError | None = None

    # ------------------------------------------------------------ facts

    @property
    def member_id(self) -> str:
        """The id of this membership."""
        return self._life.member_id

    @property
    def epoch(self) -> int:
        """The member's epoch, for commits; 0 while it is not a member."""
        return max(self._life.epoch, 0)

    @property
    def is_member(self) -> bool:
        """True: the coordinator has let this member in, and nothing says that it has ended the membership."""
        return self.state in (MemberState.STABLE, MemberState.CHANGING)

    @property
    def is_over(self) -> bool:
        """True: the member has left, and the coordinator has answered or is not waited for."""
        return self.state is MemberState.OVER and self._farewell is None

    @property
    def owned(self) -> Partitions:
        """The partitions that the consumer may read now."""
        return self._life.owned

    @property
    def change(self) -> Change | None:
        """The change that the next read has to carry out; None = there is none."""
        if self.state is not MemberState.CHANGING:
            return None
        old, new = self._life.owned, self._life.target
        revoked = {id_: name for id_, name in old.items() if id_ not in new}
        added = {id_: name for id_, name in new.items() if id_ not in old}
        return Change(self._life.received, revoked, added, new)

    def take_lost(self) -> Partitions:
        """Returns the partitions that were lost since the last call: another member may read them already."""
        lost, self._lost = self._lost, {}
        return lost

    def take_refusal(self) -> OncelogError | None:
        """Returns why the coordinator does not take this member, once per refusal."""
        refused, self._refused = self._refused, None
        return refused

    # ------------------------------------------------------------ the consumer

    def read(self, now_ms: int) -> None:
        """The consumer is asked for records: it joins, or shows that it is alive."""
        self._read_ms = now_ms
        self._move(MemberIncident.READ)

    def resubscribe(self, subscription: Subscription) -> None:
        """From now on the member wants this. What it owns stays until the next assignment."""
        self._subscription = subscription
        self._version += 1

    def carried_out(self, number: int) -> None:
        """The consumer has let go what assignment `number` lacks and reads the rest. Rule 2."""
        if self.state is not MemberState.CHANGING or number != self._life.received:
            return  # it was lost, or replaced by a newer one, meanwhile
        self._move(MemberIncident.CARRIED_OUT)
        self._life.owned = self._life.target
        self._life.applied = number

    def leave(self, *, for_now: bool = False) -> None:
        """The member goes and owns nothing. `for_now`: it is static and comes back within the session time-out."""
        if self.state in (MemberState.LEAVING, MemberState.OVER):
            return
        self._move(MemberIncident.LEAVE)
        self._begin_farewell(EPOCH_LEAVE_FOR_NOW if for_now else EPOCH_LEAVE)
        if self._farewell is None:
            self._left()

    # ------------------------------------------------------------ the coordinator and time

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        if self.is_member and now_ms >= self._life.proved_ms + self._session_ms:
            self._lose(MemberIncident.SILENCE)
        busy = self.state is MemberState.JOINING or self.is_member
        if busy and now_ms >= self._read_ms + self._max_poll_interval_ms:
            self._lose(MemberIncident.IDLE)

    def wake_ms(self) -> int | None:
        """When `tick` or `next_call` has something to do next; None = only after another event."""
        times = []
        if self.is_member:
            times.append(self._life.proved_ms + self._session_ms)
        if self.is_member or self.state is MemberState.JOINING:
            times.append(self._read_ms + self._max_poll_interval_ms)
        if self._in_flight is None and (wanted := self._wanted()) is not None:
            times.append(self._due_ms(wanted))
        return min(times, default=None)

    def next_call(self, now_ms: int) -> Heartbeat | None:
        """The heartbeat to send now, instead of the one in flight if there is one; None = none."""
        wanted = self._wanted()
        if wanted is None or wanted == self._in_flight or now_ms < self._due_ms(wanted):
            return None
        self._in_flight, self._sent_ms = wanted, now_ms
        self._life.may_be_known = self._farewell is None
        return wanted

    def answered(self, call: Heartbeat, answer: HeartbeatAnswer) -> None:
        """The answer to this heartbeat has come. Rule 1."""
        if call is not self._in_flight:
            return
        self._in_flight, self._answered = None, call
        self._failures = self._not_before_ms = 0
        if call is self._farewell:
            self._left()
            return
        self._interval_ms, self._session_ms = answer.heartbeat_interval_ms, answer.session_timeout_ms
        life = self._life
        life.epoch, life.proved_ms = answer.epoch, self._sent_ms
        if call.subscription is not None:
            life.acknowledged_version = call.version
        if self.state is MemberState.JOINING:
            self._move(MemberIncident.WELCOME)
        if answer.assignment is not None and answer.assignment.number > life.received:
            self._assign(answer.assignment)

    def failed(self, call: Heartbeat, error: OncelogError, now_ms: int) -> None:
        """This heartbeat has failed, after it was tried again for as long as that made sense. Rule 1."""
        if call is not self._in_flight:
            return
        self._in_flight = None
        self._failures += 1
        self._not_before_ms = now_ms + max(self._pause_ms(self._failures), error.retry_after_ms)
        if call is self._farewell:
            self._left()
        elif isinstance(error, UnknownMemberError | FencedMemberEpochError):
            self._lose(MemberIncident.FENCED)
        elif not error.retriable:
            self._refused = error
            self._lose(MemberIncident.REFUSAL)

    def crashed(self, call: Heartbeat, error: OncelogError, now_ms: int) -> None:
        """A defect of ours met this heartbeat, or its answer: the reader gets the error, and the membership ends."""
        if call is not self._in_flight and call is not self._answered:
            return
        self._in_flight = None
        self._failures += 1
        self._not_before_ms = now_ms + self._pause_ms(self._failures)
        if call is self._farewell:
            self._left()
            return
        self._refused = error
        if MemberIncident.REFUSAL in MEMBER_TRANSITIONS[self.state]:
            self._lose(MemberIncident.REFUSAL)

    # ------------------------------------------------------------ inside

    def _wanted(self) -> Heartbeat | None:
        """The heartbeat that says everything the coordinator does not know yet."""
        if self._farewell is not None:
            return self._farewell
        if self.state is not MemberState.JOINING and not self.is_member:
            return None
        life = self._life
        told = life.acknowledged_version == self._version
        return Heartbeat(
            life.member_id,
            life.epoch,
            life.received,
            life.applied,
            0 if told else self._version,
            None if told else self._subscription,
            0 if life.epoch == EPOCH_JOIN else self._interval_ms,
        )

    def _due_ms(self, wanted: Heartbeat) -> int:
        """Rule 5, and the wait after a failure."""
        again_ms = self._sent_ms + self._interval_ms if wanted == self._answered else 0
        return max(self._not_before_ms, again_ms)

    def _assign(self, assignment: NewAssignment) -> None:
        life = self._life
        life.received, life.target = assignment.number, assignment.partitions
        if life.owned.keys() <= life.target.keys():
            life.applied = assignment.number  # step 4: nothing has to be let go first
        self._move(MemberIncident.ASSIGNMENT)

    def _lose(self, incident: MemberIncident) -> None:
        """The consumer stops reading. When this client ends the membership, it tells the coordinator."""
        was_member = self.is_member
        self._move(incident)
        self._lost |= self._life.owned
        may_live_on = incident in (MemberIncident.IDLE, MemberIncident.SILENCE)
        if may_live_on or (incident is MemberIncident.REFUSAL and was_member):
            self._begin_farewell(EPOCH_LEAVE_FOR_NOW if self._subscription.instance_id else EPOCH_LEAVE)
        else:
            self._begin_life()

    def _begin_farewell(self, epoch: int) -> None:
        """Rule 4. Before its first heartbeat a life has nothing to say farewell to, and an earlier one may be in flight."""
        life = self._life
        if life.may_be_known:
            self._farewell = Heartbeat(life.member_id, epoch, life.received, life.received, 0, None, 0)
            self._not_before_ms = 0
            self._begin_life()

    def _begin_life(self) -> None:
        """Rule 3. The call in flight, of the life before, is not waited for."""
        self._life = _Life(self._make_id())
        self._in_flight = self._answered = None

    def _left(self) -> None:
        """The coordinator has ended the membership, or will find out by the session time-out."""
        self._farewell = None
        if self.state is MemberState.LEAVING:
            self._move(MemberIncident.LEFT)

    def _move(self, incident: MemberIncident) -> None:
        moves = MEMBER_TRANSITIONS[self.state]
        assert incident in moves, f"{incident} in {self.state}"
        self.state = moves[incident]
