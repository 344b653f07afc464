"""Who uses the protocol: a transactional producer, and a Spark driver with its tasks; both correct, both impatient.

Rules of this file: a client is a value.  `requests()` is what it waits for (it asks again until it is answered),
`answered` is the client after an answer.  `must_show` and `may_show` say what its user was promised of a batch, and
`whole` names the unit that is all or nothing; the invariants compare these with what the logs show.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from tests.model.state import Batch, End, Init, Join, Outcome, Reply

Request: TypeAlias = Batch | Init | Join | End


class Producer(NamedTuple):
    """A session that runs transactions one after another, each over all partitions; `wants` are the outcomes it asks.

    `n` is 0 until a later session has initialised itself.  `step` is the partition to write next, and then the end.
    """

    session: int
    partitions: int
    wants: tuple[Outcome, ...]
    n: int = 1
    step: int = 0
    giving_up: bool = False
    told: tuple[tuple[int, str], ...] = ()
    status: Literal["running", "fenced", "failed"] = "running"

    @property
    def finished(self) -> bool:
        return self.status != "running" or not self.wants

    @property
    def writer(self) -> str:
        """An ordinary producer writes under the id of its transactional id, which all its sessions share."""
        return "producer"

    def requests(self) -> tuple[Request, ...]:
        if self.finished:
            return ()
        if not self.n:
            return (Init(self.session),)
        if self.step < self.partitions:
            return (Batch(self.writer, self.session, self.n, self.step),)
        if self._commits():
            return (End(self.session, self.n, "COMMITTED", ((self.writer, self.n),)),)
        return (End(self.session, self.n, "ABORTED", ()),)

    def answered(self, request: Request, reply: Reply) -> Producer:
        if request not in self.requests() or reply.kind == "WAIT":
            return self
        if reply.kind == "FENCED":
            return self._replace(status="fenced")
        if isinstance(request, Init):
            return self._replace(n=reply.n + 1)
        if isinstance(request, Batch):
            return self._replace(step=self.step + 1) if reply.kind == "OK" else self.given_up()
        return self._ended(reply)

    def given_up(self) -> Producer:
        """Aborts: the coordinator says that the transaction has ended, or the user waits no longer for a batch."""
        return self._replace(step=self.partitions, giving_up=True)

    def must_show(self, batch: Batch) -> bool:
        return batch.session == self.session and (batch.n, "COMMITTED") in self.told

    def may_show(self, batch: Batch) -> bool:
        asked = batch.n == self.n and bool(self.wants) and self.step == self.partitions and self._commits()
        return batch.session == self.session and (asked or self.must_show(batch))

    def whole(self, batch: Batch) -> object:
        """The unit that this batch belongs to, or None when it is not this client's or is not to be shown."""
        return batch.n if batch.session == self.session else None

    def __str__(self) -> str:
        told = ", ".join(f"{outcome} of {n}" for n, outcome in self.told) or "nothing"
        return f"producer      session {self.session}, {self.status}, in transaction {self.n}, was told {told}"

    def _commits(self) -> bool:
        return self.wants[0] == "COMMITTED" and not self.giving_up

    def _ended(self, reply: Reply) -> Producer:
        if reply.kind in ("ENDED", "ONGOING"):
            return self._replace(status="failed")
        told = (*self.told, (self.n, str(reply.kind)))
        return self._replace(wants=self.wants[1:], n=self.n + 1, step=0, giving_up=False, told=told)


class Task(NamedTuple):
    """A task attempt: joins, writes one batch with its own participant, and hands itself to the driver."""

    attempt: int
    name: str
    partition: int
    n: int = 0
    stage: Literal["join", "write", "done", "failed"] = "join"

    @property
    def writer(self) -> str:
        return f"{self.name}{self.attempt}"


class SparkJob(NamedTuple):
    """The driver and its tasks at one micro-batch: an attempt, and after a failure or a crash the next one.

    `plan` is the tasks of an attempt as (name, partition); the driver commits those named in `chosen`, once all of them
    are done, and the others (speculative copies) are losers, who may write as long as they like.  Tasks outlive their
    attempt.  `asked` is, per attempt that asked for a commit, the winners with the transaction that each wrote in.
    """

    plan: tuple[tuple[str, int], ...]
    chosen: str
    attempts: int
    tasks: tuple[Task, ...]
    attempt: int = 1
    stage: Literal["running", "committing", "aborting", "committed", "failed"] = "running"
    asked: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()
    told: tuple[tuple[int, str], ...] = ()
    session: int = 1

    @property
    def finished(self) -> bool:
        return self.stage in ("committed", "failed")

    def requests(self) -> tuple[Request, ...]:
        wanted: list[Request] = []
        for task in self.tasks:
            if task.stage == "join":
                wanted.append(Join(self.session, task.attempt, task.writer))
            elif task.stage == "write":
                wanted.append(Batch(task.writer, self.session, task.n, task.partition))
        return (*wanted, *self.driver_requests())

    def driver_requests(self) -> tuple[End, ...]:
        if self.stage == "committing":
            winners = dict(self.asked)[self.attempt]
            return (End(self.session, winners[0][1], "COMMITTED", winners, self.attempt),)
        if self.stage == "aborting" and self._last_n():
            return (End(self.session, self._last_n(), "ABORTED", (), self.attempt),)
        return ()

    def answered(self, request: Request, reply: Reply) -> SparkJob:
        if request not in self.requests() or reply.kind == "WAIT":
            return self
        if isinstance(request, End):
            return self._ended(request, reply)
        if isinstance(request, Join) and reply.kind == "COMMITTED":
            return self._already_committed(request)
        return self._tasks_moved(request, reply)

    def next_attempt(self) -> SparkJob:
        """Spark runs the micro-batch again with new tasks, or the query has failed."""
        if self.attempt == self.attempts:
            return self._replace(stage="failed")
        attempt = self.attempt + 1
        old = tuple(task for task in self.tasks if task.stage in ("join", "write"))
        new = tuple(Task(attempt, name, partition) for name, partition in self.plan)
        return self._replace(attempt=attempt, stage="running", tasks=(*old, *new))

    def must_show(self, batch: Batch) -> bool:
        return self.whole(batch) is not None and any(told == (self._of(batch), "COMMITTED") for told in self.told)

    def may_show(self, batch: Batch) -> bool:
        return self.whole(batch) is not None and (self._of(batch), "ABORTED") not in self.told

    def whole(self, batch: Batch) -> object:
        winners = dict(self.asked).get(self._of(batch), ())
        return self._of(batch) if batch.writer in dict(winners) else None

    def __str__(self) -> str:
        told = ", ".join(f"{outcome} of attempt {attempt}" for attempt, outcome in self.told) or "nothing"
        return f"Spark job     attempt {self.attempt}, {self.stage}, was told {told}"

    def _of(self, batch: Batch) -> int:
        return int(batch.writer[1:])

    def _last_n(self) -> int:
        return max(task.n for task in self.tasks if task.attempt == self.attempt)

    def _tasks_moved(self, request: Request, reply: Reply) -> SparkJob:
        moved = [_moved(task, request, reply) for task in self.tasks]
        tasks = tuple(task for task in moved if task.attempt == self.attempt or task.stage in ("join", "write"))
        return self._replace(tasks=tasks)._driver_looks()

    def _driver_looks(self) -> SparkJob:
        """Commit when all chosen tasks are done, in one transaction; abort when one failed or they joined two."""
        mine = [task for task in self.tasks if task.attempt == self.attempt and task.name in self.chosen]
        if self.stage != "running":
            return self
        if any(task.stage == "failed" for task in mine):
            return self._aborted()
        if any(task.stage != "done" for task in mine):
            return self
        winners = tuple((task.writer, task.n) for task in mine)
        return self._replace(stage="committing", asked=(*self.asked, (self.attempt, winners)))

    def _aborted(self) -> SparkJob:
        return self._replace(stage="aborting") if self._last_n() else self.next_attempt()

    def _ended(self, request: End, reply: Reply) -> SparkJob:
        if request.outcome == "COMMITTED" and reply.kind == "ENDED":
            return self._replace(stage="aborting")
        told = (*self.told, (self.attempt, str(reply.kind)))
        if reply.kind == "COMMITTED":
            return self._replace(stage="committed", told=told)
        return self._replace(told=told).next_attempt()

    def _already_committed(self, request: Join) -> SparkJob:
        """The token says that this micro-batch is in; a task of an older attempt hears it too, and has no one to tell."""
        tasks = tuple(task for task in self.tasks if task.writer != request.writer)
        current = request.attempt == self.attempt and self.stage == "running"
        return self._replace(tasks=tasks, stage="committed") if current else self._replace(tasks=tasks)


def _moved(task: Task, request: Request, reply: Reply) -> Task:
    if isinstance(request, Join | Batch) and request.writer == task.writer:
        if reply.kind != "OK":
            return task._replace(stage="failed")
        if task.stage == "join":
            return task._replace(stage="write", n=reply.n)
        return task._replace(stage="done")
    return task


def spark_job(plan: tuple[tuple[str, int], ...], chosen: str, attempts: int) -> SparkJob:
    """A job at the start of its first attempt."""
    return SparkJob(plan, chosen, attempts, tuple(Task(1, name, partition) for name, partition in plan))


Client: TypeAlias = Producer | SparkJob
