"""One seed: a whole cluster, a workload, faults; then healing, a final read, and a verdict.

The seed decides everything: the fault plan (swarm style), the flush mode, sizes, the clients, the schedule.

Rule 1: a run is judged even when it breaks off: what was raised is the verdict then.
Rule 2: after healing the cluster must be live within `_HEAL_MS` of virtual time, and stay so: clients succeed again.
Rule 3: nothing that is forgiven is forgiven silently: every exception is named here, with its reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any, Final

from oncelog import errors
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.wire import methods
from oncelog_runtime.sim.faults import FaultPlan
from tests.simulation import (
    availability,
    channel_work,
    delay_work,
    hard_plan,
    measurements,
    membership_work,
    passing_ids,
    topics,
)
from tests.simulation.availability import PROBE, Availability, Measured
from tests.simulation.blackout import Blackout
from tests.simulation.block_watch import watch_blocks
from tests.simulation.channel_work import ChannelWork
from tests.simulation.checker import Final as FinalRead
from tests.simulation.checker import check
from tests.simulation.cluster import SimCluster
from tests.simulation.cluster_faults import ClusterFaults
from tests.simulation.copier import Copier, differences
from tests.simulation.decision_invariants import MarkersFollowDecisions, watch_decisions
from tests.simulation.delay_work import DelayWork
from tests.simulation.disk_claims import watch_disks
from tests.simulation.group_work import GroupWork
from tests.simulation.history import Operation
from tests.simulation.hostile import Hostile
from tests.simulation.invariants import Watcher
from tests.simulation.log_invariants import watch_logs
from tests.simulation.losses import LossBudget
from tests.simulation.measurements import Measurements
from tests.simulation.opened_logs import watch_openings
from tests.simulation.operator import Operator
from tests.simulation.passing_ids import PassingIds
from tests.simulation.replicas import differing, leaders_of, settled
from tests.simulation.shard_log_invariants import watch_shard_logs
from tests.simulation.side_work import PASSING, TRIMMED, TRIMMED_CONFIG, TRIMMED_PARTITIONS, SideWork
from tests.simulation.spark_job import SparkJob
from tests.simulation.topics import COPY, PARTITIONS, WORK, SimTopic
from tests.simulation.workload import RACKS, Workload, final_read, hasty

_JOB: Final = "spark"
_WORK_S: Final = (6.0, 12.0)
_HEAL_MS: Final = 60_000
_SCRUB_MS: Final = 3_000
_SCRUBBED_S: Final = 3 * _SCRUB_MS / 1000
_RETENTION_MS: Final = 700
_BALANCE_MS: Final = 1_500
_SUCCESS_MS: Final = 20_000
_KINDS: Final = ("send", "txn", "batch", "poll")
_REPLAY_MAX_MS: Final = 12_000.0
_EVIDENCE_MAX: Final = 5
_CLOCK_ERROR_MS: Final = 400
_HASTY_SHARE: Final = 0.4
"""Of all runs have clients with short time-outs."""
_GROUP_SHARE: Final = 0.3
"""Of all runs have a group whose position is committed inside transactions and plainly."""
_DARK_SHARE: Final = 0.3
"""Of all runs end with a power cut of all brokers."""


@dataclass(slots=True)
class Verdict:
    """What came of one seed. `violations` is empty when all is well."""

    seed: int
    violations: list[str] = field(default_factory=list)
    digest: str = ""
    virtual_ms: int = 0
    steps: int = 0
    sights: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    available: Measured = field(default_factory=Measured)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {len(self.violations)} violations, digest {self.digest}"]
        return "\n  ".join(lines + self.violations[:_EVIDENCE_MAX])


class _BugLog(logging.Handler):
    """Production code that meets a bug of its own says so in its log, and goes on. Here that is a violation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, errors.OncelogError | asyncio.CancelledError):
            self.found.append(f"logged-bug: {record.getMessage()}: {error!r}")


class _LossLog(logging.Handler):
    """A reader, or a channel, whose log has lost records says so. What is judged loses none before the lights go out."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        is_told = "records were lost" in text or "records that were read are lost" in text
        if is_told and not text.startswith(PASSING):
            self.found.append(f"told-of-a-loss: {text}")


class Scenario:
    """One run. `verdict` grows while it goes."""

    def __init__(self, seed: int, forced: tuple[str, ...] = ()) -> None:
        self.verdict = Verdict(seed)
        self._losses = _LossLog()
        draw = Random(f"{seed}:scenario")
        self.fsync = draw.random() < 0.3
        self.small_segments = draw.random() < 0.3
        self.shared_id = draw.random() < 0.15
        self.trims = draw.random() < 0.3
        self.passing_topics = draw.random() < 0.2
        self.work_s = draw.uniform(*_WORK_S)
        self.senders = draw.randint(1, 2)
        self.max_down = draw.choice([1, 2, 2])
        self.hard = hard_plan.draw(seed, forced)
        services = Random(f"{seed}:services")
        tuning = Random(f"{seed}:tuning")
        self.coordinator = {
            "marker_timeout_ms": tuning.choice([5_000, 5_000, 1_000, 300]) if seed else 5_000,
            "producer_ids_prefetch": tuning.choice([100, 100, 400, 1_000]) if seed else 100,
            "shard_log_slack_records": Random(f"{seed}:shard-logs").choice([2, 10, 50, 1_000]),
            "ended_retention_ms": Random(f"{seed}:ended").choice([100, 500, 3_600_000]),
        }
        self.coordinators = 3 if seed and services.random() < 0.25 else 2
        self.allocators = 2 if seed and services.random() < 0.3 else 1
        self.topics = topics.draw(
            seed,
            fsync=self.fsync,
            small_segments=self.small_segments,
            may_lose_nothing=not (self.hard.lose_volume_every_ms or self.hard.rot_every_ms),
        )
        haste = Random(f"{seed}:haste")
        self.haste = hasty(haste) if seed and haste.random() < _HASTY_SHARE else None
        self.has_group = bool(seed) and Random(f"{seed}:group").random() < _GROUP_SHARE
        has_rot = self.hard.rot_every_ms > 0  # a rotten log is set aside, with what it alone had kept
        self.ends_dark = bool(seed) and not has_rot and Random(f"{seed}:blackout").random() < _DARK_SHARE
        self.has_channels = bool(seed) and Random(f"{seed}:channels").random() < channel_work.SHARE
        self.has_delays = bool(seed) and Random(f"{seed}:delays").random() < delay_work.SHARE
        self.measures = bool(seed) and Random(f"{seed}:measurements").random() < measurements.SHARE
        passing = Random(f"{seed}:passing-ids")
        self.has_passing_ids = bool(seed) and passing.random() < passing_ids.SHARE
        if self.has_passing_ids:
            self.coordinator |= passing_ids.settings(passing)
        self.faster = draw.choice([2, 4, 8])
        self.cancel_handler = 0.3 if draw.random() < 0.2 else 0.0  # as grpc.aio does to handlers of unary calls
        more = Random(f"{seed}:operations")
        self.operations_every_ms = more.choice([400.0, 1_000.0]) if seed and more.random() < 0.4 else 0.0
        self.brokers, self.grows = more.choice([(3, False), (3, True), (4, False)]) if seed else (3, False)
        if self.hard.restore_etcd_every_ms:  # an operator makes such changes again, as the documentation says
            self.passing_topics = False
        self.plan = FaultPlan() if seed == 0 else replace(_plan(seed, self.faster), cancel_handler=self.cancel_handler)

    def run(self) -> Verdict:
        """Everything."""
        verdict, bugs = self.verdict, _BugLog()
        logger = logging.getLogger()
        logger.addHandler(bugs)
        logger.addHandler(self._losses)
        try:
            doors = verdict.seed % 2 == 1  # half of all clusters have listeners for clients
            options = {"retention_interval_ms": _RETENTION_MS, "scrub_interval_ms": _SCRUB_MS}
            services: dict[str, Any] = {"coordinators": self.coordinators, "allocators": self.allocators}
            services["coordinator"] = membership_work.OPTIONS | self.coordinator
            with SimCluster(verdict.seed, doors=doors, **services, **options) as cluster:
                try:
                    cluster.world.run(self._whole(cluster))
                except (Exception, AssertionError) as error:
                    verdict.violations.append(f"{type(error).__name__}: {error}")
                    verdict.violations.extend(f"untaken: {other!r}" for other in cluster.world.loop.errors[:3])
                loop = cluster.world.loop
                verdict.digest, verdict.virtual_ms, verdict.steps = loop.digest, loop.now_ms(), loop.steps
                verdict.injected.update(loop.injected)
        finally:
            logger.removeHandler(bugs)
            logger.removeHandler(self._losses)
        verdict.violations.extend(bugs.found)
        return verdict

    # ------------------------------------------------------------ the story

    async def _whole(self, cluster: SimCluster) -> None:
        await cluster.healthy()
        await self._create_topics(cluster)
        budget = LossBudget(cluster.world.metadata, self._is_judged, lambda topic: topic == TRIMMED and not self.fsync)
        watcher = Watcher(cluster, budget.written_off)
        watch_blocks(cluster)
        watch_logs(watcher, cluster, budget.written_off)
        watch_disks(watcher, cluster)
        watch_openings(watcher, cluster)
        decisions, became_visible = watch_decisions(watcher, cluster)
        shard_logs = watch_shard_logs(watcher, cluster)
        workload = Workload(cluster, self.topics, watcher.acknowledged, became_visible)
        job, copier = SparkJob(workload, _JOB), Copier(workload)
        side = SideWork(workload, budget.is_written_off, watcher.reached, self._stays_listed)
        group, passing = GroupWork(workload), PassingIds(workload)
        channels = ChannelWork(workload, is_there=self.has_channels, fsync=self.fsync)
        moves_clocks = bool(self.plan.clock_step_every_ms or self.hard.leap_clock_every_ms)
        clock_error_ms = None if moves_clocks else _CLOCK_ERROR_MS
        delays = DelayWork(cluster, is_there=self.has_delays, fsync=self.fsync, clock_error_ms=clock_error_ms)
        await channels.create()
        await delays.create()
        hostile = Hostile(workload, self.hard.hostile_every_ms)
        faults = ClusterFaults(
            cluster,
            self.plan,
            self.hard,
            cluster.world.random("faults"),
            self.max_down,
            budget,
            durable=self.fsync,
        )
        cluster.world.set_plan(self.plan)
        if self.haste is not None:  # "not written" is said of what was refused; a late copy of it could be taken yet
            cluster.world.network.never_copied = frozenset({methods.PRODUCE.name})
        bound_ms = availability.bound_of(self.plan, self.hard, has_operator=self.operations_every_ms > 0 or self.grows)
        probing = Availability(workload, budget, faults.active, bound_ms)
        running = [cluster.world.spawn(work) for work in (*self._processes(workload, job, side), *channels.processes())]
        running += [cluster.world.spawn(work) for work in delays.processes()]
        running += [cluster.world.spawn(probing.prober(p)) for p in range(availability.PARTITIONS)]
        if self.has_group:
            running.append(cluster.world.spawn(group.main("mixer")))
        if self.has_passing_ids:
            running += [cluster.world.spawn(passing.main(f"passing-{i}")) for i in range(2)]
        if self.hard.hostile_every_ms:
            running.append(cluster.world.spawn(hostile.main()))
        watching = cluster.world.spawn(probing.watch())
        copying = cluster.world.spawn(copier.main())
        faults.start()
        operating = cluster.world.spawn(self._operate(cluster))
        await asyncio.sleep(self.work_s)
        for task in (operating, watching):
            task.cancel()
        for ended in await asyncio.gather(operating, watching, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        await faults.stop()
        self.verdict.violations.extend(probing.violations)
        self.verdict.available = probing.measured
        await cluster.healthy(_HEAL_MS)
        await self._succeeds_again(workload)
        workload.stopping = True
        delays.stop()
        async with _phase(lambda: "the clients end their work"):
            await asyncio.gather(*running)
        # What was refused may be written by a late copy, but not between two reads of the judge.
        async with _phase(lambda: "late copies of requests arrive"):
            while cluster.world.network.copies_under_way(methods.PRODUCE.name):  # noqa: ASYNC110 (the network has no event)
                await asyncio.sleep(0.1)
        self.verdict.violations.extend(hostile.accepted)
        await self._judge(cluster, workload, copier, copying)
        if self.trims:
            self.verdict.violations.extend(await side.check(leaders_of(cluster, TRIMMED)))
        self.verdict.violations.extend([*side.problems, *group.problems, *passing.problems])
        self.verdict.operations["group's rounds"] += group.rounds
        self._count_ids(passing, decisions)
        await self._judge_channels(channels.finish())
        await self._judge_delays(delays)
        self.verdict.violations.extend(self._losses.found)
        if self.ends_dark:
            await self._end_dark(cluster, budget, watcher)
            await self._judge_channels(channels.after_dark())
        self.verdict.operations["deletions from shard logs"] += shard_logs.deleted
        self.verdict.operations["lives of shards compared"] += shard_logs.replayed
        self.verdict.operations["lives that read a shorter log"] += shard_logs.shortened
        self.verdict.operations["forgotten ends of transactions"] += shard_logs.forgotten
        self.verdict.operations["jobs acknowledged"] += len(channels.judge.acknowledged_s)
        self._count(workload, job, copier, side, watcher)

    async def _judge_channels(self, judging: Awaitable[list[str]]) -> None:
        async with _phase(lambda: "workers do what is left"):
            self.verdict.violations.extend(await judging)

    async def _judge_delays(self, delays: DelayWork) -> None:
        async with _phase(lambda: "what is delayed comes"):
            self.verdict.violations.extend(await delays.finish())
        for operation in delays.load.history.operations:
            self.verdict.operations[f"delays: {operation.kind} {operation.status.value}"] += 1

    def _stays_listed(self, transaction: TransactionDescription) -> bool:
        """Where ids are removed soon, only one with a token that must last is sure to stay."""
        return not self.has_passing_ids or (transaction.transactional_id == _JOB and bool(transaction.tokens))

    async def _end_dark(self, cluster: SimCluster, budget: LossBudget, watcher: Watcher) -> None:
        """Nothing that is judged by the history happens after this."""
        keys = [key for topic in self.topics for key in topic.keys]
        blackout = Blackout(cluster, budget, watcher.reached_in, cluster.world.random("blackout"), keys)
        kept = await blackout.strike()
        await cluster.healthy(_HEAL_MS)
        blackout.judge(kept)
        self.verdict.violations.extend(blackout.problems)

    @staticmethod
    def _is_judged(topic: str) -> bool:
        return not topic.startswith(PASSING)

    async def _operate(self, cluster: SimCluster) -> None:
        if self.operations_every_ms:
            random = cluster.world.random("operator")
            await Operator(cluster, random, self.operations_every_ms, grows=self.grows).main()
        elif self.grows:
            await asyncio.sleep(self.work_s / 3)
            cluster.add_broker()
            cluster.world.loop.note_fault("scale_out")

    async def _succeeds_again(self, workload: Workload) -> None:
        """Liveness: after healing each kind of operation succeeds again."""
        healed_at, history = workload.now_ms(), workload.history
        while missing := set(_KINDS) - {o.kind for o in history.operations if o.is_ok_since(healed_at)}:
            if workload.now_ms() > healed_at + _SUCCESS_MS:
                self.verdict.violations.append(f"not-live: no {sorted(missing)} succeeds for {_SUCCESS_MS} ms")
                return
            await asyncio.sleep(0.2)

    async def _create_topics(self, cluster: SimCluster) -> None:
        flush_mode = {"flush.mode": "fsync" if self.fsync else "replicated"}
        probe = {"min.insync.replicas": "2", **flush_mode}
        others = [measurements.topic(fsync=self.fsync)] if self.measures else []
        trimmed = [SimTopic(TRIMMED, TRIMMED_PARTITIONS, 3, TRIMMED_CONFIG | flush_mode, 0)] if self.trims else []
        async with cluster.client("setup") as client:
            for topic in (*self.topics, SimTopic(PROBE, availability.PARTITIONS, 3, probe, 0), *trimmed, *others):
                await topic.create(client)

    def _processes(self, workload: Workload, job: SparkJob, side: SideWork) -> list[Coroutine[Any, Any, None]]:
        shared = "shared" if self.shared_id else ""
        beside = [side.trimmed_writer("trimmer")] if self.trims else []
        if self.haste is not None:
            beside += [workload.sender(f"hasty-sender-{i}", self.haste) for i in range(2)]
            beside.append(workload.transactor("hasty-transactor", timeouts=self.haste))
        if self.passing_topics:
            beside.append(side.topic_maker("maker"))
        if self.trims:
            beside.append(side.operator("operator", may_change_flush_mode=not self.fsync))
        if self.measures:
            beside.append(Measurements(workload).main("measurer"))
        return [
            *beside,
            *(workload.sender(f"sender-{i}") for i in range(self.senders)),
            *(workload.transactor(f"transactor-{i}", shared) for i in range(2)),
            workload.reader("reader-0"),
            workload.reader("reader-1", rack=RACKS[1]),
            workload.snapshooter("snapshooter"),
            workload.reader("peeker", "read_uncommitted", RACKS[2]),
            job.main("spark"),
        ]

    # ------------------------------------------------------------ the verdict

    async def _judge(
        self,
        cluster: SimCluster,
        workload: Workload,
        copier: Copier,
        copying: asyncio.Task[None],
    ) -> None:
        found = self.verdict.violations
        if self.hard.rot_every_ms:
            await asyncio.sleep(_SCRUBBED_S)  # what nobody has read yet is found, set aside and filled again
        await settled(cluster, _HEAL_MS)
        final = await final_read(cluster, [*workload.keys, *((PROBE, p) for p in range(availability.PARTITIONS))])
        found.extend(str(anomaly) for anomaly in check(workload.history, final))
        found.extend(await _false_outcomes(cluster, workload, final))
        async with cluster.client() as client:
            copier.finish_at(
                {(WORK, p): o.last_stable_offset for p, o in (await client.admin.partition_offsets(WORK)).items()}
            )
        async with _phase(lambda: f"the copier copies what is left; its last error: {copier.trouble!r}"):
            await copying
        await settled(cluster, _HEAL_MS)  # its last commit may be decided and not visible yet
        copied = await final_read(cluster, [(COPY, p) for p in range(PARTITIONS)])
        found.extend(f"copy: {text}" for text in differences(final, copied))
        await settled(cluster, _HEAL_MS)
        found.extend(differing(cluster))
        for name in sorted(cluster.services):
            Watcher.check(cluster.services[name])

    def _count_ids(self, passing: PassingIds, decisions: MarkersFollowDecisions) -> None:
        count = self.verdict.operations
        count["ids made for once"] += passing.made
        count["ids removed"] += decisions.removed
        count["late ones refused"] += passing.refused

    def _count(self, workload: Workload, job: SparkJob, copier: Copier, side: SideWork, watcher: Watcher) -> None:
        count = self.verdict.operations
        for operation in workload.history.operations:
            count[f"{operation.kind} {operation.status.value}"] += 1
        count["batches committed"] += job.committed
        count["batches found committed"] += job.replayed
        count["side records"] += side.written
        count["replicas moved"] += watcher.store.moved
        count["operator's rounds"] += side.operated
        count["copier commits"] += copier.committed
        count["copier partitions given"] += copier.moved
        self.verdict.causes.update(workload.causes)
        self.verdict.sights = watcher.checked


@asynccontextmanager
async def _phase(what: Callable[[], str]) -> AsyncIterator[None]:
    """A part of the end of a run, which must be over within `_HEAL_MS`. Raises `TimeoutError` with its name."""
    limit = asyncio.timeout(_HEAL_MS / 1000)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"not over within {_HEAL_MS} ms: {what()}") from error


def _plan(seed: int, faster_by: int) -> FaultPlan:
    plan = FaultPlan.draw(Random(f"{seed}:plan"))
    names = [item.name for item in fields(plan) if item.name.endswith("_every_ms")]  # meant for longer runs
    faster: dict[str, Any] = {name: getattr(plan, name) / faster_by for name in names}
    shorter: dict[str, Any] = {"pause_max_ms": 3_000.0, "partition_max_ms": 3_000.0, "restart_after_max_ms": 1_500.0}
    return replace(plan, replay_max_ms=_REPLAY_MAX_MS, **shorter, **faster)


async def _false_outcomes(cluster: SimCluster, workload: Workload, final: FinalRead) -> list[str]:
    """What `GetOutcome` says of each transaction must agree with what can be seen, and with what its client was told."""
    in_final = {(key, value) for key, records in final.items() for _, value in records}
    operations: dict[tuple[str, int], list[Operation]] = {}
    for id_, txn_no, operation in workload.named:
        group = operations.setdefault((id_, txn_no), [])
        if operation not in group:  # several tasks of one batch
            group.append(operation)
    found: list[str] = []
    committed: Counter[int] = Counter()
    async with cluster.client() as client:
        for (id_, txn_no), group in sorted(operations.items()):
            outcome = await _outcome_of(client, id_, txn_no)
            seen = [o for o in group if any(write in in_final for write in o.writes)]
            committed.update(o.index for o in seen if outcome == "committed")
            found.extend(_disagreements(f"{id_} {txn_no}", outcome, group, seen))
    found.extend(f"false-outcome: operation {i} was committed {n} times" for i, n in committed.items() if n > 1)
    return found


async def _outcome_of(client: Any, id_: str, txn_no: int) -> str:
    try:
        outcome = await client.get_outcome(id_, txn_no)
    except errors.OutcomeForgottenError:
        return "forgotten"
    except errors.InvalidPidMappingError:
        return "ongoing"  # the id itself was never heard of
    return str(outcome.outcome)


def _disagreements(name: str, outcome: str, group: list[Operation], seen: list[Operation]) -> list[str]:
    """A number is one transaction's: nobody else is given it, and its outcome is that transaction's."""
    texts = [str(operation) for operation in group]
    if len(group) > 1:
        return [f"false-outcome: {name}: several operations have one name: {texts}"]
    if outcome == "committed" and not seen and any(operation.writes for operation in group):
        return [f"false-outcome: {name} is committed, but nothing of {texts} is visible"]
    return []


def run_seed(seed: int, forced: tuple[str, ...] = ()) -> Verdict:
    """The whole story of one seed. `forced`: kinds of `HardPlan` that are there in any case."""
    return Scenario(seed, forced).run()
