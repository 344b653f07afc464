"""Every step of a group whose partitions move, and what must hold.

A client's heartbeat is decided at once and its answer comes later, or never; a copy of it may be decided at any time after.
So all that happens between a request and its answer is in here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.model.explorer import Broken, Step
from tests.model.handover import coordinator
from tests.model.handover.coordinator import Shown
from tests.model.handover.rules import ALL_RULES, Rules
from tests.model.handover.scenarios import Scenario
from tests.model.handover.state import Budget, Client, Given, Member, Parts, Phase, Request, State

FENCED = "a member was fenced that did nothing wrong"
READ_TWICE = "two members read one partition"
OWNED_TWICE = "two members own one partition"
UNCOMMITTED = "a member reads what it may not commit"
STARVES = "a partition has no reader"


class HandOver:
    """The model, for the explorer."""

    def __init__(self, scenario: Scenario, rules: Rules = ALL_RULES) -> None:
        self.scenario = scenario
        self.rules = rules

    def initial(self) -> Iterator[State]:
        """Some members that are settled, partition after partition dealt out, or none; the next one joins."""
        numbers, settled = range(self.scenario.members), self.scenario.settled
        dealt = {p: p % settled for p in range(self.scenario.partitions)} if settled else {}
        mine = [frozenset(p for p, owner in dealt.items() if owner == number) for number in numbers]
        yield State(
            assignment_epoch=1 if settled else 0,
            is_due=False,
            members=tuple(self._member(mine[number], is_there=number < settled) for number in numbers),
            clients=tuple(_client(mine[number], number - settled) for number in numbers),
            given=tuple(Given(1, dealt[p]) if dealt else Given() for p in range(self.scenario.partitions)),
            late=frozenset(),
            budget=self.scenario.budget,
        )

    def _member(self, mine: Parts, *, is_there: bool) -> Member:
        none = (0,) * self.scenario.partitions
        if not is_there:
            return Member(assigned=none, revoking=none)
        assigned = tuple(int(p in mine) for p in range(self.scenario.partitions))
        return Member(is_there=True, epoch=1, number=1, assigned=assigned, revoking=none, target=mine)

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """What may happen next; nothing after a broken promise."""
        if state.fault:
            return
        for number, client in enumerate(state.clients):
            yield from self._client(state, number, client)
        if state.is_due and any(member.is_there for member in state.members):
            for after in assigned(state):
                yield Step("another assignment"), after
        yield from self._environment(state)

    # ------------------------------------------------------------ a client

    def _client(self, state: State, number: int, client: Client) -> Iterator[tuple[Step, State]]:
        if client.answer is not None:
            yield Step("{} gets its answer", (number,)), _taken(state, number, client)
            if state.budget.losses:
                lost = _client_is(state, number, client._replace(answer=None))
                yield Step("the answer to {} is lost", (number,), fault=True), _spend(lost, "losses")
        elif client.phase in (Phase.JOINING, Phase.INSIDE):
            for after in self._sent(state, number, client):
                yield Step("{} sends a heartbeat", (number,)), after
            if state.budget.copies:
                after = state._replace(late=state.late | {_request(number, client)})
                yield Step("a heartbeat of {} is delayed", (number,), fault=True), _spend(after, "copies")
        if client.applied != client.received:
            done = client._replace(reading=client.wanted, applied=client.received)
            yield Step("{} carries out what it was told", (number,)), _client_is(state, number, done)

    def _sent(self, state: State, number: int, client: Client) -> Iterator[State]:
        for after, answer in self._decided(state, _request(number, client)):
            if answer is not None:
                tells = answer.epoch != client.epoch or answer.assigned is not None or client.phase is Phase.JOINING
                yield _client_is(after, number, client._replace(answer=answer)) if tells else after
            elif state.members[number].is_there:
                yield state._replace(fault=FENCED)
            else:
                yield _client_is(state, number, Client(Phase.GONE))

    def _decided(self, state: State, request: Request) -> Iterator[tuple[State, coordinator.Answer | None]]:
        """The states in which a heartbeat may leave the coordinator, each with the answer; None = refused."""
        is_new = not state.members[request.member].is_there
        if request.epoch > 0:
            if coordinator.is_fenced(state.members[request.member], request, self.rules):
                yield state, None
            else:
                yield coordinator.beat(state, request, Shown(request.epoch, request.applied), self.rules)
            return
        joined = coordinator.joined(state, request, self.rules)
        if joined is None:
            yield state, None
            return
        for after in (*([joined] if joined.assignment_epoch else []), *(assigned(joined) if joined.is_due else ())):
            yield coordinator.beat(after, request, self._shown_by_join(after, request, is_new=is_new), self.rules)

    def _shown_by_join(self, state: State, request: Request, *, is_new: bool) -> Shown:
        member = state.members[request.member]
        if self.rules.join_copy_says_nothing:
            return Shown(member.epoch if is_new else 0, 0)
        return Shown(member.epoch, member.number)

    # ------------------------------------------------------------ what nobody decides

    def _environment(self, state: State) -> Iterator[tuple[Step, State]]:
        for request in state.late:
            for after, _ in self._decided(state, request):
                yield (
                    Step("a late copy of {} comes", (request,), fault=True),
                    after._replace(late=state.late - {request}),
                )
        if state.budget.assignments and not state.is_due:
            yield (
                Step("topics change", fault=True),
                _spend(state._replace(is_due=True), "assignments"),
            )
        for number, client in enumerate(state.clients):
            if client.phase is Phase.OUTSIDE:
                yield (
                    Step("{} comes", (number,), fault=True),
                    _client_is(state, number, client._replace(phase=Phase.JOINING)),
                )
            if not state.members[number].is_there:
                continue
            if client.phase is Phase.GONE:
                yield Step("the session of nobody's {} ends", (number,)), coordinator.ended(state, number)
            elif state.budget.ends:
                after = _spend(coordinator.ended(state, number), "ends")
                yield Step("the session of {} ends", (number,), fault=True), after
            if client.phase is Phase.INSIDE and state.budget.leaves:
                after = _client_is(coordinator.ended(state, number), number, Client(Phase.GONE))
                yield Step("{} leaves", (number,), fault=True), _spend(after, "leaves")

    # ------------------------------------------------------------ the promise

    def broken(self, state: State) -> Iterator[Broken]:
        """What must hold in every state."""
        if state.fault:
            yield Broken(state.fault, "see the last step")
        owned: list[int] = []
        read: list[int] = []
        for number, (member, client) in enumerate(zip(state.members, state.clients, strict=True)):
            if not member.is_there:
                continue
            owned += member.owned()
            read += client.reading
            for partition in client.reading:
                since = member.assigned[partition] or member.revoking[partition]
                if not 0 < since <= client.epoch <= member.epoch:
                    yield Broken(UNCOMMITTED, f"{number} reads {partition} of {since} in epoch {client.epoch}")
        if len(owned) > len(set(owned)):
            yield Broken(OWNED_TWICE, str(owned))
        if len(read) > len(set(read)):
            yield Broken(READ_TWICE, str(read))

    def broken_at_rest(self, state: State) -> Iterator[Broken]:
        """What must hold when nothing is left to do."""
        if state.fault or not any(member.is_there for member in state.members):
            return
        for number, (member, client) in enumerate(zip(state.members, state.clients, strict=True)):
            if member.is_there and client.reading != member.target:
                yield Broken(STARVES, f"{number} reads {sorted(client.reading)} of {sorted(member.target)}")
        read = frozenset[int]().union(*(client.reading for client in state.clients if client.phase is Phase.INSIDE))
        if len(read) < self.scenario.partitions:
            yield Broken(STARVES, f"only {sorted(read)} have readers")


def _client(mine: Parts, place: int) -> Client:
    """A client at the beginning: settled (a place below 0), the one that joins (0), or one that comes later."""
    if place < 0:
        return Client(Phase.INSIDE, 1, 1, 1, mine, mine)
    return Client(Phase.OUTSIDE if place else Phase.JOINING)


def assigned(state: State) -> Iterator[State]:
    """The next assignment: every function from partitions to members, since any assignor may be at work."""
    there = [number for number, member in enumerate(state.members) if member.is_there]
    for chosen in product(there, repeat=len(state.given)):
        members = tuple(
            member._replace(target=frozenset(p for p, owner in enumerate(chosen) if owner == number))
            if member.is_there
            else member
            for number, member in enumerate(state.members)
        )
        yield state._replace(members=members, assignment_epoch=state.assignment_epoch + 1, is_due=False)


def _request(number: int, client: Client) -> Request:
    epoch = client.epoch if client.phase is Phase.INSIDE else 0
    return Request(number, epoch, client.received, client.applied)


def _taken(state: State, number: int, client: Client) -> State:
    answer = client.answer
    assert answer is not None
    client = client._replace(phase=Phase.INSIDE, epoch=answer.epoch, answer=None)
    if answer.assigned is not None:
        client = client._replace(received=answer.number, wanted=answer.assigned)
    return _client_is(state, number, client)


def _client_is(state: State, number: int, client: Client) -> State:
    return state._replace(clients=(*state.clients[:number], client, *state.clients[number + 1 :]))


def _spend(state: State, what: str) -> State:
    left: Budget = state.budget._replace(**{what: getattr(state.budget, what) - 1})
    return state._replace(budget=left)
