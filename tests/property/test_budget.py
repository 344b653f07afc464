"""Budgets under any order of reserving, waiting, giving up and releasing."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from oncelog.errors import ResourceExhaustedError
from oncelog_runtime.core.budget import Budget, Waiter

SIZES = st.integers(0, 70)


class BudgetMachine(RuleBasedStateMachine):
    """A process with two peers of three connections each; a model of plain lists says what each one holds."""

    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.process = Budget("process", 100)
        self.peers = [self.process.child("peer", 70) for _ in range(2)]
        self.leaves = [peer.child("connection", 50) for peer in self.peers for _ in range(3)]
        self.held: list[list[int]] = [[] for _ in self.leaves]
        self.open: list[tuple[int, Waiter]] = []

    @rule(leaf=st.integers(0, 5), size=SIZES)
    def reserve(self, leaf: int, size: int) -> None:
        before = self.leaves[leaf].available_bytes
        try:
            self.leaves[leaf].reserve(size)
        except ResourceExhaustedError:
            assert size > before
        else:
            assert size <= before
            self.held[leaf].append(size)

    @rule(target=waiters, leaf=st.integers(0, 5), size=SIZES)
    def wait(self, leaf: int, size: int) -> tuple[int, Waiter] | None:
        try:
            waiter = self.leaves[leaf].wait(size, lambda: None)
        except ResourceExhaustedError:
            assert size > 50
            return None
        self.open.append((leaf, waiter))
        return leaf, waiter

    @rule(waiting=waiters)
    def give_up(self, waiting: tuple[int, Waiter] | None) -> None:
        if waiting in self.open:
            assert waiting is not None
            self.open.remove(waiting)
            self.leaves[waiting[0]].give_up(waiting[1])

    @rule(leaf=st.integers(0, 5))
    def release(self, leaf: int) -> None:
        if self.held[leaf]:
            self.leaves[leaf].release(self.held[leaf].pop())

    @invariant()
    def nothing_is_above_a_limit_and_sums_are_right(self) -> None:
        for node in (self.process, *self.peers, *self.leaves):
            node.check()
        for number, leaf in enumerate(self.leaves):
            granted = sum(waiter.bytes for at, waiter in self.open if at == number and waiter.granted)
            assert leaf.taken_bytes == sum(self.held[number]) + granted
        for number, peer in enumerate(self.peers):
            assert peer.taken_bytes == sum(leaf.taken_bytes for leaf in self.leaves[3 * number : 3 * number + 3])
        assert self.process.taken_bytes == sum(peer.taken_bytes for peer in self.peers)

    @invariant()
    def nobody_waits_beside_enough_room(self) -> None:
        lines = [node for node in (self.process, *self.peers, *self.leaves) if node._line]
        for node in lines:
            first = node._line[0]._waiting[0]
            assert first.bytes > node.limit_bytes - node.taken_bytes

    def teardown(self) -> None:
        for number, leaf in enumerate(self.leaves):
            for size in self.held[number]:
                leaf.release(size)
            self.held[number] = []
        for at, waiter in self.open:
            self.leaves[at].give_up(waiter)
        for node in (self.process, *self.peers, *self.leaves):
            assert node.is_idle, "everything was given back"


BudgetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBudget = BudgetMachine.TestCase
