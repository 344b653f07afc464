"""The leader's view of its followers: which are in sync, how far each one is, and what is therefore committed.

Theory of operation
-------------------
In: the leader's own appends and syncs (`wrote`), acknowledgements of followers (`acknowledge`), refusals of followers that
cannot write (`cannot_write`), the values of the partition's key in etcd (`resolve`, `settled`), and a look at the clock and
at the registered brokers from time to time (`proposal`).
Out: the high watermark, up to which `acks=all` is answered and consumers read; the ISR to propose to etcd, which a shell
writes by compare-and-swap (`replication/isr.py`); and advice to give the leadership up (`must_give_way`).

An election may choose any member of the ISR that etcd names, or an eligible replica beside it. So a record is committed only
when every replica that could be elected holds it. Each rule below closes one way in which that could become false.

What can go wrong, and the rule that prevents it:

- A late acknowledgement of an earlier session arrives, and its follower has truncated its log since (rule 1, hole 24).
- A follower restarts and loses records that it had acknowledged: its new incarnation counts for nothing until it has
  caught up and has joined again (rules 1 and 3, hole 2).
- The answer to an ISR write is lost, so the leader does not know which ISR an election would use: the larger set counts
  until it knows (rules 2 and 7, hole 17).
- A new leader has records of older epochs that only some replicas hold. They are committed all at once, when the whole ISR
  has reached the start of the leader's epoch; a follower joins only when it has all of them (rule 3, Raft 5.4.2).
- The ISR falls below the minimum, and a single log would decide what is committed: the high watermark stops (rule 2).
- One slow or dead follower stops every `acks=all`: it leaves the ISR, by lag, by silence or by its own report (rules 3-6).
- The leader itself is cut off and would shrink the ISR to itself: it keeps the silent members, and gives way (rule 5).

Rules
-----
Rule 1: a follower's end counts only in its newest session with the incarnation that the ISR names, after last epochs
        agreed (`start_session` forgets it, `acknowledge` counts only within that session).
Rule 2: the high watermark is the smallest end over the *maximal* ISR (committed and proposed), and does not move while
        the committed ISR is below `min_insync_replicas`, nor while etcd names eligible replicas: they must keep holding
        every committed record (KIP-966), whatever the minimum is by now. It never goes back. It does not move either while
        the log may be sealed on disk (`sealing`).
Rule 3: a member leaves after `lag_max_ms` without being caught up; one whose end is the log's end never leaves for it.
        A replica joins when its end has reached the high watermark *and* the start of the leader's epoch.
Rule 4: a member that the controller took out comes back only by a new session, and not before `REJOIN_AFTER_MS`: what an
        unreachable follower acknowledged long ago does not show that it is alive. Each write of the partition's key voids
        the acknowledgements of replicas outside of the ISR: it may say that a log of theirs was lost (`leaving`), and no
        replica joins by a write that does not know of it.
Rule 5: a silent member (one that does not even answer that it is alive) leaves if enough others are left for `acks=all`,
        since it holds them up. With too few others its leaving would not help, so it stays; it may be this leader that is
        cut off, and then another member should lead (`must_give_way`).
Rule 6: a follower that says that it cannot write leaves at once, and joins again when it holds everything that the log had
        at that time.
Rule 7: one proposal at a time. While its answer is unknown the larger set counts (hole 17).
Rule 8: a set that is whole and caught up is settled: no passing of time changes its ISR. It needs no look until something
        happens here, the registered brokers change or one falls silent (`settle`), so an idle partition costs nothing.
Rule 9: every assigned replica, in sync or not, holds what lies below `held_everywhere`: a follower counts with what its disk
        has, as it said in its newest session in this epoch, and with nothing before it said so. Below that offset compaction
        may drop tombstones and markers: no replica will ask for them again, not even after a power cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from oncelog.types import BrokerRef

Isr = tuple[BrokerRef, ...]
UNKNOWN: int = -1
REJOIN_AFTER_MS: int = 1_000
GIVE_WAY_AFTER_MS: int = 10_000


@dataclass(slots=True)
class Follower:
    """The leader's knowledge of one follower. `end` -1 = nothing agreed in this session."""

    ref: BrokerRef
    session: int = 0
    end: int = UNKNOWN
    caught_up_ms: int = 0
    mark_end: int = 0
    mark_ms: int = 0
    joins_after_ms: int = 0
    held: int = UNKNOWN
    """Everything below it is on its disk (rule 9)."""
    owed_end: int = UNKNOWN
    """The log end when the follower said that it cannot write: its end must reach this before it joins."""


class Registered(NamedTuple):
    """The partition's value in etcd."""

    replicas: tuple[int, ...]
    isr: Isr
    mod_revision: int
    eligible: Isr = ()


class Ends(NamedTuple):
    """How far the leader's own log is. `own` is the synced end in fsync mode, else the log's end."""

    high_watermark: int
    log: int
    own: int


class ReplicaSet:
    """One partition's replicas in one leader epoch.

    It has more methods than other classes: one for each thing that can happen to a replica, and short questions for the parts
    that look. All of them read the same few fields, of which rules 1 to 7 speak; each changes them in a few lines.
    """

    def __init__(
        self,
        me: BrokerRef,
        registered: Registered,
        ends: Ends,
        *,
        min_insync_replicas: int,
        lag_max_ms: int,
        now_ms: int,
        is_sealed: bool = False,
    ) -> None:
        self.me = me
        replicas, isr, self.mod_revision, self.eligible = registered
        self.high_watermark, log_end, self._own_end = ends
        self._log_end = self.epoch_start = log_end
        self.committed = isr
        self.is_sealed = is_sealed
        self.is_settled = False
        """Rule 8, as of the last `settle`."""
        self.proposed: Isr | None = None
        self._min_insync = min(min_insync_replicas, len(replicas))
        self._lag_max_ms = lag_max_ms
        self._began_ms = now_ms
        self._sessions = 0
        self._followers: dict[int, Follower] = {
            broker: Follower(BrokerRef(broker, 0), caught_up_ms=now_ms, mark_end=log_end, mark_ms=now_ms)
            for broker in replicas
            if broker != me.broker_id
        }
        for member in isr:
            if member.broker_id in self._followers:
                self._followers[member.broker_id].ref = member
        self._advance()

    # ------------------------------------------------------------ questions

    @property
    def followers(self) -> Mapping[int, Follower]:
        """The followers, by broker id."""
        return self._followers

    @property
    def replica_count(self) -> int:
        """Number of assigned replicas, the leader included."""
        return len(self._followers) + 1

    @property
    def enough_in_sync(self) -> bool:
        """True when the committed ISR has at least `min_insync_replicas` members, so that `acks=all` may append."""
        return len(self.committed) >= self._min_insync

    @property
    def may_unseal(self) -> bool:
        """The ISR in etcd is at the minimum and names no eligible replicas, so that a sealed log may be unsealed."""
        return self.enough_in_sync and not self.eligible

    @property
    def own_end(self) -> int:
        """The leader's own end: synced in fsync mode, else the log end."""
        return self._own_end

    @property
    def min_insync_replicas(self) -> int:
        """The minimum in force: never above the number of replicas."""
        return self._min_insync

    @property
    def held_everywhere(self) -> int:
        """The offset below which every assigned replica holds everything (rule 9). It goes down when one begins again."""
        return max(0, min([self._own_end, *(follower.held for follower in self._followers.values())]))

    def awaits_disks(self, offset: int) -> bool:
        """Returns True when a follower has taken something below `offset` that was not on its disk when it answered last."""
        return any(follower.held < min(follower.end, offset) for follower in self._followers.values())

    @property
    def watermark_is_known(self) -> bool:
        """False for a new leader that does not yet know that everything before its epoch is committed."""
        return self.high_watermark >= self.epoch_start

    def maximal(self) -> Isr:
        """Returns the committed and the proposed members: those that count for the high watermark."""
        if self.proposed is None:
            return self.committed
        return self.committed + tuple(ref for ref in self.proposed if ref not in self.committed)

    # ------------------------------------------------------------ what happened

    def wrote(self, log_end: int, own_end: int, now_ms: int) -> bool:
        """Notes that the leader's own log grew or was synced. True when the high watermark moved."""
        assert log_end >= self._log_end, "a leader's log only grows"
        assert own_end >= self._own_end, "and what is synced stays so"
        for follower in self._followers.values():
            if follower.end >= self._log_end:  # it had everything until now, however old the newest record is
                follower.caught_up_ms = now_ms
        self.is_settled = self.is_settled and log_end == self._log_end
        self._log_end = log_end
        self._own_end = own_end
        return self._advance()

    def next_session(self) -> int:
        """Returns the next session number of this epoch."""
        self._sessions += 1
        return self._sessions

    def start_session(self, ref: BrokerRef, session: int, now_ms: int) -> None:
        """Begins a new session with a follower: acknowledgements of the last one do not count any more."""
        follower = self._followers[ref.broker_id]
        assert session > follower.session, "sessions grow"
        self.is_settled = False
        if follower.ref != ref:
            follower.ref = ref
            follower.caught_up_ms = now_ms
            follower.owed_end = UNKNOWN
        follower.session = session
        follower.end = follower.held = UNKNOWN

    def acknowledge(self, ref: BrokerRef, session: int, end: int, now_ms: int, synced_end: int = UNKNOWN) -> bool:
        """Notes that a follower holds everything below `end`, and below `synced_end` on its disk. True when the high watermark
        moved; late answers do not count.
        """
        follower = self._followers.get(ref.broker_id)
        if follower is None or follower.ref != ref or follower.session != session:
            return False
        follower.end = max(follower.end, min(end, self._log_end))
        follower.held = max(follower.held, min(synced_end, self._log_end))
        if follower.end >= follower.owed_end:
            follower.owed_end = UNKNOWN
        if follower.end >= self._log_end:
            follower.caught_up_ms = now_ms
        elif follower.end >= follower.mark_end:  # it has everything that the log had when the mark was set
            follower.caught_up_ms = max(follower.caught_up_ms, follower.mark_ms)
        else:
            return self._advance()
        follower.mark_end = self._log_end
        follower.mark_ms = now_ms
        return self._advance()

    def cannot_write(self, ref: BrokerRef, session: int, now_ms: int) -> bool:
        """Notes that the follower refused data, since its log cannot take any. True when that is new."""
        follower = self._followers.get(ref.broker_id)
        if follower is None or follower.ref != ref or follower.session != session:
            return False
        self.is_settled = False
        is_news = follower.owed_end == UNKNOWN
        follower.owed_end = self._log_end
        follower.joins_after_ms = now_ms + REJOIN_AFTER_MS
        return is_news

    def may_seal(self, synced_end: int) -> bool:
        """Returns True when nothing can be committed now, and everything that was committed is synced here."""
        return not self.enough_in_sync and self.high_watermark <= synced_end

    def seal(self) -> None:
        """Stops the high watermark until `unseal`."""
        self.is_sealed = True
        self.is_settled = False

    def unseal(self) -> bool:
        """Notes that the disk has no seal any more. True when the high watermark moved."""
        self.is_sealed = False
        return self._advance()

    # ------------------------------------------------------------ membership

    def proposal(self, now_ms: int, live: Mapping[int, int], silent: Collection[BrokerRef] = ()) -> Isr | None:
        """Returns the ISR to propose, or None when nothing is to change or an answer is outstanding.

        `live`: broker id -> incarnation of every registered broker. `silent`: those that have not answered for too long.
        """
        if self.proposed is not None:
            return None
        staying = tuple(ref for ref in self.committed if self._stays(ref, now_ms, live))
        wanted = tuple(ref for ref in staying if ref not in silent)
        if len(wanted) < self._min_insync:
            kept = (ref for ref in self.committed if ref in silent and self._is_whole(ref, live))
            wanted = staying + tuple(ref for ref in kept if ref not in staying)
        joining = (f.ref for f in self._followers.values() if self._may_join(f, now_ms, live))
        wanted += tuple(ref for ref in joining if ref not in silent)
        outlived = bool(self.eligible) and len(wanted) >= self._min_insync  # to be cleared before anything is committed
        return None if wanted == self.committed and not outlived else wanted

    def settle(self, live: Mapping[int, int]) -> None:
        """Sets `is_settled`: until something happens here, `proposal` is None for these registered brokers, none silent."""
        is_whole = len(self.committed) == self.replica_count and not self.eligible and not self.is_sealed
        self.is_settled = (
            is_whole and self.proposed is None and all(map(partial(self._is_steady, live), self.committed))
        )

    def _is_steady(self, live: Mapping[int, int], ref: BrokerRef) -> bool:
        """Returns True for a member that leaves at no time by itself: this leader, or a follower that lacks nothing."""
        return ref == self.me or (self._is_whole(ref, live) and self._followers[ref.broker_id].end >= self._log_end)

    def must_give_way(self, now_ms: int, silent: Collection[BrokerRef]) -> bool:
        """Returns True when this leader is cut off: without the silent members it commits nothing; they alone could commit.

        A new leader waits before it says so: if no broker reaches another, leadership must not go round in circles.
        """
        cut = sum(ref in silent for ref in self.committed)
        is_cut_off = len(self.committed) - cut < self._min_insync <= cut
        return is_cut_off and now_ms - self._began_ms >= GIVE_WAY_AFTER_MS

    def propose(self, isr: Isr) -> None:
        """Notes that a compare-and-swap with this ISR is in flight."""
        assert self.proposed is None, "one ISR update in flight"
        self.proposed = isr
        self.is_settled = False

    def resolve(self, isr: Isr, mod_revision: int, now_ms: int, eligible: Isr = ()) -> list[int]:
        """Takes over the value that etcd holds: our own proposal's, or another writer's (then `advanced` moves the watermark).

        Returns the followers that need a new session: those that are not in the ISR.
        """
        if mod_revision <= self.mod_revision:
            return []
        ours = self.proposed if self.proposed is not None else self.committed
        taken_out = [ref for ref in self.committed if ref not in isr and ref in ours and ref != self.me]
        for ref in taken_out:
            self._followers[ref.broker_id].joins_after_ms = now_ms + REJOIN_AFTER_MS
        outside = [follower for follower in self._followers.values() if follower.ref not in isr]
        for follower in outside:
            follower.end = follower.held = UNKNOWN
        self.committed = isr
        self.eligible = eligible
        self.mod_revision = mod_revision
        self.is_settled = False
        return [follower.ref.broker_id for follower in outside]

    def require_in_sync(self, min_insync_replicas: int) -> bool:
        """Changes the minimum. True when the high watermark moved."""
        self._min_insync = min(min_insync_replicas, len(self._followers) + 1)
        self.is_settled = False
        return self._advance()

    def advanced(self) -> bool:
        """Computes the high watermark again. True when it moved."""
        return self._advance()

    def settled(self) -> bool:
        """Ends the outstanding proposal, whose outcome `resolve` has taken over. True when the high watermark moved."""
        self.proposed = None
        return self._advance()

    def _stays(self, ref: BrokerRef, now_ms: int, live: Mapping[int, int]) -> bool:
        if ref == self.me:
            return True
        if not self._is_whole(ref, live):
            return False
        follower = self._followers[ref.broker_id]
        return follower.end >= self._log_end or now_ms - follower.caught_up_ms <= self._lag_max_ms

    def _is_whole(self, ref: BrokerRef, live: Mapping[int, int]) -> bool:
        """Returns True when the ISR names the follower's incarnation, and its log accepts writes."""
        follower = self._followers.get(ref.broker_id)
        if follower is None or follower.ref != ref or live.get(ref.broker_id, ref.incarnation) != ref.incarnation:
            return False  # another incarnation: what this one acknowledged may be gone
        return follower.end >= follower.owed_end

    def _may_join(self, follower: Follower, now_ms: int, live: Mapping[int, int]) -> bool:
        if follower.ref in self.committed or live.get(follower.ref.broker_id) != follower.ref.incarnation:
            return False
        needed = max(self.high_watermark, self.epoch_start, follower.owed_end)
        return now_ms >= follower.joins_after_ms and follower.end >= needed

    # ------------------------------------------------------------ the watermark

    def _end_of(self, ref: BrokerRef) -> int:
        if ref == self.me:
            return self._own_end
        follower = self._followers.get(ref.broker_id)
        return follower.end if follower is not None and follower.ref == ref else UNKNOWN

    def _advance(self) -> bool:
        if not self._may_commit():
            return False
        end = min(self._end_of(ref) for ref in self.maximal())
        # Records of older epochs are committed all at once, or not yet (Raft 5.4.2).
        if end <= self.high_watermark or end < self.epoch_start:
            return False
        self.high_watermark = end
        return True

    def _may_commit(self) -> bool:
        """Applies rule 2. A proposal below the minimum may be in force already, with no eligible replica beside it."""
        outstanding = self.proposed is not None and len(self.proposed) < self._min_insync
        return self.may_unseal and not self.is_sealed and not outstanding

    def check(self) -> None:
        """Asserts every invariant."""
        assert self._own_end <= self._log_end, "nothing is synced that was not written"
        assert self.high_watermark <= self._log_end, "the high watermark lies in the log"
        assert self.me in self.committed, "a leader is in its ISR"
        assert len(set(self.committed)) == len(self.committed), "the ISR names nobody twice"
