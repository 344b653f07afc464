"""Workers that remember in the log do each record once, in whatever order they are stopped, killed and replaced.

The cluster is a model of a few lines: a partition with one owner, transactions that hold a next offset, a topic of ids. The
steps are those of `Holding`; between any two of them, and within a transaction, another worker may go on, or this one may die.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.once.holding import Begin, Claim, Copy, Done, Holding, Kept, Look, Membership, Met, ReadBack
from oncelog.core.once.remembered import RememberedIds

WORKERS = 2
TTL_MS = 10_000
NOW_MS = 5
"""Below the numbers of workers soon, so that they grow by one."""


class Refused(Exception):
    """Another member has the partition, or the transaction was aborted; nothing was committed."""


class Lost(Exception):
    """An answer was lost."""


@dataclass
class Txn:
    """A transaction, and the next offset that it holds once that was sent."""

    kept: Kept | None = None
    state: str = "open"
    is_visible: bool = False
    """Its markers are written, some time after it was committed."""


@dataclass
class Log:
    """What the cluster keeps of one partition."""

    inputs: str
    owner: Membership = field(default_factory=lambda: Membership("nobody", 0))
    kept: Kept | None = None
    ids: list[tuple[str, Txn]] = field(default_factory=list)
    outputs: list[tuple[str, int, Txn]] = field(default_factory=list)
    transactions: list[Txn] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)

    def begin(self) -> Txn:
        self.transactions.append(Txn())
        return self.transactions[-1]

    def send_offsets(self, txn: Txn, kept: Kept, membership: Membership) -> None:
        if membership != self.owner or txn.state != "open":
            raise Refused
        txn.kept = kept

    def commit(self, txn: Txn) -> None:
        if txn.state != "open":
            raise Refused
        assert txn.kept is not None
        txn.state, self.kept = "committed", txn.kept

    def time_out(self) -> None:
        for txn in self.transactions:
            if txn.state == "open":
                txn.state = "aborted"

    def write_markers(self, txns: list[Txn]) -> None:
        for txn in txns:
            txn.is_visible = txn.state == "committed"

    def is_stable(self) -> bool:
        """No open transaction holds an offset."""
        return not any(txn.state == "open" and txn.kept is not None for txn in self.transactions)

    def done(self) -> list[tuple[str, int]]:
        return [(value, fencing) for value, fencing, txn in self.outputs if txn.state == "committed"]


Steps = Generator[None, None, None]


def transact(log: Log, kept: Kept, membership: Membership, output: str = "", record_id: str = "") -> Steps:
    """After a failure the next producer of the name ends what is open."""
    txn = log.begin()
    try:
        yield from written(log, txn, kept, membership, output, record_id)
    except (Refused, Lost):
        txn.state = "aborted" if txn.state == "open" else txn.state
        raise


def written(log: Log, txn: Txn, kept: Kept, membership: Membership, output: str, record_id: str) -> Steps:
    yield
    if output:
        log.outputs.append((output, kept.fencing, txn))
        yield
    if record_id:
        log.ids.append((record_id, txn))
        yield
    log.send_offsets(txn, kept, membership)
    yield
    log.commit(txn)
    yield  # the answer is on its way


def read_back(log: Log) -> Generator[None, None, RememberedIds]:
    end = len(log.ids)
    found = RememberedIds(TTL_MS)
    for record_id, txn in log.ids[:end]:
        while txn.state == "open" or (txn.state == "committed" and not txn.is_visible):
            yield
        if txn.is_visible:
            found.add(record_id, NOW_MS)
    return found


def one_record(log: Log, holding: Holding, offset: int, membership: Membership) -> Steps:
    """As `OnceInLog` does it."""
    name = log.inputs[offset]
    met = Met(offset, "" if name == "-" else name, membership, NOW_MS)
    while True:
        match holding.step(met):
            case Look():
                while not log.is_stable():
                    yield
                kept = log.kept
                yield
                holding.looked(kept, membership)
            case Claim(kept):
                yield from transact(log, kept, membership)
                log.claims.append(kept.fencing)
                holding.claimed(kept)
            case ReadBack():
                ids = yield from read_back(log)
                yield
                holding.read_back(ids)
            case Copy():
                yield from transact(log, Kept(offset + 1, holding.kept.fencing), membership)
                holding.committed(met, offset + 1, -1)
                return
            case Done():
                return
            case Begin(fencing):
                yield
                yield from transact(log, Kept(offset + 1, fencing), membership, f"{name}{offset}", met.record_id)
                holding.committed(met, offset + 1, -1)
                return


def worker(log: Log, name: str) -> Steps:
    """Reads as a member does: where the partition was assigned, from the committed offset on."""
    holding, read_as, position = Holding(TTL_MS), None, 0
    while True:
        try:
            yield
            if log.owner.member_id != name:
                continue
            if read_as != log.owner:
                mine = log.owner
                while not log.is_stable():
                    yield
                read_as, position = mine, log.kept.next_offset if log.kept else 0
            if position < len(log.inputs):
                yield from one_record(log, holding, position, read_as)
                position += 1
        except (Refused, Lost):
            holding.lost()


class World:
    """Workers by number, each with a name that it never has again after it died."""

    def __init__(self, inputs: str) -> None:
        self.log = Log(inputs)
        self.lives = [0] * WORKERS
        self.workers = [self._born(number) for number in range(WORKERS)]

    def _name(self, number: int) -> str:
        return f"{number}.{self.lives[number]}"

    def _born(self, number: int) -> Steps:
        made = worker(self.log, self._name(number))
        next(made)
        return made

    def do(self, event: str, number: int, steps: int) -> None:
        """Something happens to this worker, and then it takes so many steps."""
        match event:
            case "assign":
                self.log.owner = Membership(self._name(number), self.log.owner.epoch + 1)
            case "kill":
                self.workers[number].close()
                self.lives[number] += 1
                self.workers[number] = self._born(number)
            case "lose":
                self.workers[number].throw(Lost)
            case "time out":
                self.log.time_out()
        before = [txn for txn in self.log.transactions if txn.state != "open"]
        for _ in range(steps):
            next(self.workers[number])
        self.log.write_markers(before)

    def finish(self) -> None:
        """One worker is left in peace, and has all the time."""
        self.log.time_out()
        self.do("assign", 0, 0)
        for _ in range(30 * (len(self.log.inputs) + 2)):
            self.do("go on", 0, 2)


def expected(inputs: str) -> list[str]:
    """The first record of each id, and all that have none."""
    return [f"{name}{at}" for at, name in enumerate(inputs) if name == "-" or name not in inputs[:at]]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["go on", "go on", "assign", "assign", "kill", "lose", "time out"]),
        st.integers(0, WORKERS - 1),
        st.integers(0, 30),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=2_000, deadline=None)
@given(inputs=st.text(alphabet="aab-", min_size=2, max_size=4), actions=ACTIONS)
def test_each_record_is_done_once_and_in_order_whoever_dies(inputs: str, actions: list[tuple[str, int, int]]) -> None:
    world = World(inputs)
    for event, number, steps in actions:
        world.do(event, number, steps)
    world.finish()
    done = world.log.done()
    assert [name for name, _ in done] == expected(inputs)
    fencing = [number for _, number in done]
    assert fencing == sorted(fencing), "the number never goes back"
    assert len(set(world.log.claims)) == len(world.log.claims), "no two claims have one number"
