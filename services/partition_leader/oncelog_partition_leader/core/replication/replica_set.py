"""The leader's view of its followers: who is in sync, and how far everybody is.

Rule 1: a follower's end counts only in its newest session with the incarnation that the ISR names, after last epochs
        agreed (`start_session` forgets, `agree` and `acknowledge` count).
Rule 2: the high watermark is the smallest end over the *maximal* ISR (committed and proposed), and does not move while
        the committed ISR is below `min_insync_replicas`, nor while etcd names eligible replicas: they must go on holding
        every committed record (KIP-966), whatever the minimum is by now. It never goes back. It stands still, too, while
        the log may be sealed on disk (`sealing`).
Rule 3: a member leaves after `lag_max_ms` without being caught up; one whose end is the log's end never leaves for it.
        A replica joins when its end has reached the high watermark *and* the start of the leader's epoch.
Rule 4: whom somebody else (the controller) took out comes back only by a new session, and not before `REJOIN_AFTER_MS`:
        what an unreachable follower acknowledged long ago is no sign of life. Each write of the partition's key ends what
        replicas outside of the ISR have acknowledged: it may say that a log of theirs was lost (`leaving`), and nobody
        joins by a write that does not know of it.
Rule 5: who is silent (does not even answer that it is alive) leaves if enough others are left for `acks=all`: it holds them
        up. With too few others its leaving would help nobody, so it stays; it may be this leader that is cut off, and then
        another member is to lead (`must_give_way`).
Rule 6: who says that it cannot write leaves at once, and is back when it has taken everything that was there at that time.
Rule 7: one proposal at a time. While its answer is unknown the larger set counts (hole 17).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.types import BrokerRef

Isr = tuple[BrokerRef, ...]
UNKNOWN: int = -1
REJOIN_AFTER_MS: int = 1_000
GIVE_WAY_AFTER_MS: int = 10_000


@dataclass(slots=True)
class Follower:
    """What the leader knows of one follower. `end` -1 = nothing agreed in this session."""

    ref: BrokerRef
    session: int = 0
    end: int = UNKNOWN
    caught_up_ms: int = 0
    mark_end: int = 0
    mark_ms: int = 0
    joins_after_ms: int = 0
    owed_end: int = UNKNOWN
    """It said that it cannot write: its end must reach this."""


class Registered(NamedTuple):
    """What etcd says of the partition."""

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
    """One partition's replicas in one leader epoch."""

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
        self.proposed: Isr | None = None
        self._min_insync = min(min_insync_replicas, len(replicas))
        self._lag_max_ms = lag_max_ms
        self._began_ms = now_ms
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
        """By broker id."""
        return self._followers

    @property
    def replica_count(self) -> int:
        """Assigned replicas, the leader too."""
        return len(self._followers) + 1

    @property
    def enough_in_sync(self) -> bool:
        """The committed ISR reaches `min_insync_replicas`: `acks=all` may append."""
        return len(self.committed) >= self._min_insync

    @property
    def may_unseal(self) -> bool:
        """What is in etcd allows to commit again."""
        return self.enough_in_sync and not self.eligible

    @property
    def own_end(self) -> int:
        """How far the leader's own log counts."""
        return self._own_end

    @property
    def min_insync_replicas(self) -> int:
        """In force: never above the number of replicas."""
        return self._min_insync

    @property
    def watermark_is_known(self) -> bool:
        """False for a new leader that does not yet know that everything before its epoch is committed."""
        return self.high_watermark >= self.epoch_start

    def maximal(self) -> Isr:
        """Committed and proposed members; who counts for the high watermark."""
        if self.proposed is None:
            return self.committed
        return self.committed + tuple(ref for ref in self.proposed if ref not in self.committed)

    # ------------------------------------------------------------ what happened

    def wrote(self, log_end: int, own_end: int, now_ms: int) -> bool:
        """The leader's own log grew or was synced. True when the high watermark moved."""
        assert log_end >= self._log_end, "a leader's log only grows"
        assert own_end >= self._own_end, "and what is synced stays so"
        for follower in self._followers.values():
            if follower.end >= self._log_end:  # it had everything until now, however long ago that was written
                follower.caught_up_ms = now_ms
        self._log_end = log_end
        self._own_end = own_end
        return self._advance()

    def start_session(self, ref: BrokerRef, session: int, now_ms: int) -> None:
        """A new session with a follower: what the last one acknowledged no longer counts for anything new."""
        follower = self._followers[ref.broker_id]
        assert session > follower.session, "sessions grow"
        if follower.ref != ref:
            follower.ref = ref
            follower.caught_up_ms = now_ms
            follower.owed_end = UNKNOWN
        follower.session = session
        follower.end = UNKNOWN

    def acknowledge(self, ref: BrokerRef, session: int, end: int, now_ms: int) -> bool:
        """The follower holds everything below `end`. True when the high watermark moved; a late answer does nothing."""
        follower = self._followers.get(ref.broker_id)
        if follower is None or follower.ref != ref or follower.session != session:
            return False
        follower.end = max(follower.end, min(end, self._log_end))
        if follower.end >= follower.owed_end:
            follower.owed_end = UNKNOWN
        if follower.end >= self._log_end:
            follower.caught_up_ms = now_ms
        elif follower.end >= follower.mark_end:  # it has what was there when the mark was set
            follower.caught_up_ms = max(follower.caught_up_ms, follower.mark_ms)
        else:
            return self._advance()
        follower.mark_end = self._log_end
        follower.mark_ms = now_ms
        return self._advance()

    def cannot_write(self, ref: BrokerRef, session: int, now_ms: int) -> bool:
        """The follower refused what it was sent, since its log takes nothing. True when that is news."""
        follower = self._followers.get(ref.broker_id)
        if follower is None or follower.ref != ref or follower.session != session:
            return False
        is_news = follower.owed_end == UNKNOWN
        follower.owed_end = self._log_end
        follower.joins_after_ms = now_ms + REJOIN_AFTER_MS
        return is_news

    def may_seal(self, synced_end: int) -> bool:
        """Nothing can be committed now, and what was is synced."""
        return not self.enough_in_sync and self.high_watermark <= synced_end

    def seal(self) -> None:
        """Nothing is committed from now on, until `unseal`."""
        self.is_sealed = True

    def unseal(self) -> bool:
        """No seal is on disk any more. True when the high watermark moved."""
        self.is_sealed = False
        return self._advance()

    # ------------------------------------------------------------ membership

    def proposal(self, now_ms: int, live: Mapping[int, int], silent: Collection[BrokerRef] = ()) -> Isr | None:
        """The ISR that should be, or None when it is as it should be or an answer is outstanding.

        `live`: broker id -> incarnation of every registered broker. `silent`: of which nothing was heard for too long.
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

    def must_give_way(self, now_ms: int, silent: Collection[BrokerRef]) -> bool:
        """Without the silent members nothing can be committed, and with them alone it could: it is this leader that is cut off.

        A new leader waits: if nobody reaches anybody, a partition is not to go round and round.
        """
        cut = sum(ref in silent for ref in self.committed)
        is_cut_off = len(self.committed) - cut < self._min_insync <= cut
        return is_cut_off and now_ms - self._began_ms >= GIVE_WAY_AFTER_MS

    def propose(self, isr: Isr) -> None:
        """A compare-and-swap with this ISR is on its way."""
        assert self.proposed is None, "one ISR update in flight"
        self.proposed = isr

    def resolve(self, isr: Isr, mod_revision: int, now_ms: int, eligible: Isr = ()) -> list[int]:
        """etcd holds these: a proposal's answer, or somebody else's write. See `advanced` for the high watermark.

        Returns the followers that need a new session: those which are not in the ISR.
        """
        if mod_revision <= self.mod_revision:
            return []
        ours = self.proposed if self.proposed is not None else self.committed
        taken_out = [ref for ref in self.committed if ref not in isr and ref in ours and ref != self.me]
        for ref in taken_out:
            self._followers[ref.broker_id].joins_after_ms = now_ms + REJOIN_AFTER_MS
        outside = [follower for follower in self._followers.values() if follower.ref not in isr]
        for follower in outside:
            follower.end = UNKNOWN
        self.committed = isr
        self.eligible = eligible
        self.mod_revision = mod_revision
        return [follower.ref.broker_id for follower in outside]

    def require_in_sync(self, min_insync_replicas: int) -> bool:
        """Another minimum from now on. True when the high watermark moved."""
        self._min_insync = min(min_insync_replicas, len(self._followers) + 1)
        return self._advance()

    def advanced(self) -> bool:
        """True when the high watermark moved since it was last computed."""
        return self._advance()

    def settled(self) -> bool:
        """The outstanding proposal's fate is known (`resolve` came first). True when the high watermark moved."""
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
        """It is the incarnation that the ISR names, and its log takes what it is sent."""
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
        # What older epochs left is committed all at once, or not yet (Raft 5.4.2).
        if end <= self.high_watermark or end < self.epoch_start:
            return False
        self.high_watermark = end
        return True

    def _may_commit(self) -> bool:
        """Rule 2. A proposal below the minimum may be in force already, with nobody eligible beside it."""
        outstanding = self.proposed is not None and len(self.proposed) < self._min_insync
        return self.may_unseal and not self.is_sealed and not outstanding

    def check(self) -> None:
        """Asserts what must always hold."""
        assert self._own_end <= self._log_end, "nothing is synced that was not written"
        assert self.high_watermark <= self._log_end, "the high watermark lies in the log"
        assert self.me in self.committed, "a leader is in its ISR"
        assert len(set(self.committed)) == len(self.committed), "the ISR names nobody twice"
