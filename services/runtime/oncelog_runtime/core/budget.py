"""Budgets of bytes: a tree of process, peer and connection, from which memory is taken before it is allocated.

Rule 1: a node's taken bytes include those of its children, and never exceed its limit: `reserve` takes from the whole
        path to the root or from nothing, and the refusal names the full node.
Rule 2: waiting reservations are served in turn: each child of a full node has one place in its line, however many of
        its own requests wait, so no connection delays the others. A later reservation never passes a line.
Rule 3: reserving and releasing cost the depth of the tree, not the number of children or of other waiting reservations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from oncelog.errors import ConfigError, ResourceExhaustedError

_RETRY_AFTER_MS = 100


class Waiter:
    """A waiting reservation. `granted`: its bytes are taken, and the owner must release them."""

    __slots__ = ("bytes", "grant", "granted")

    def __init__(self, size: int, grant: Callable[[], None]) -> None:
        self.bytes = size
        self.grant = grant
        self.granted = False


class Budget:
    """One node of the tree. Raises `ConfigError` for an illegal limit.

    A child may have a larger limit than its parent: the parent's applies too.
    """

    __slots__ = ("_line", "_line_of", "_waiting", "limit_bytes", "name", "parent", "refused", "taken_bytes")

    def __init__(self, name: str, limit_bytes: int, parent: Budget | None = None) -> None:
        if limit_bytes < 1:
            raise ConfigError(f"the budget of {name} is at least one byte", limit_bytes=limit_bytes)
        self.name = name
        self.limit_bytes = limit_bytes
        self.parent = parent
        self.taken_bytes = 0
        self.refused = 0  # at a root: the number of refusals below it
        self._waiting: deque[Waiter] = deque()  # own reservations, in the order in which they came
        self._line: deque[Budget] = deque()  # budgets whose first waiter waits for room here
        self._line_of: Budget | None = None  # the node in whose line this one waits

    def child(self, name: str, limit_bytes: int) -> Budget:
        """Makes a child of this budget."""
        return Budget(name, limit_bytes, self)

    # ------------------------------------------------------------ taking

    @property
    def available_bytes(self) -> int:
        """The bytes that could be reserved now; 0 while a reservation waits on the path to the root."""
        if self._waiting:
            return 0
        least = self.limit_bytes
        node: Budget | None = self
        while node is not None:
            room = 0 if node._line else node.limit_bytes - node.taken_bytes
            if room < least:
                least = room
            node = node.parent
        return least

    def reserve(self, size: int) -> None:
        """Takes `size` bytes, or nothing. Raises `ResourceExhaustedError`."""
        assert size >= 0, "a reservation is not negative"
        if size > self.available_bytes:
            raise self.refusal(size)
        self._take(size)

    def release(self, size: int) -> None:
        """Releases bytes, and grants waiting reservations in turn."""
        assert size >= 0, "nothing negative is given back"
        node: Budget | None = self
        while node is not None:
            assert node.taken_bytes >= size, "more is given back than was taken"
            node.taken_bytes -= size
            node = node.parent
        node = self
        while node is not None:
            if node._line:
                node._serve_line()
            node = node.parent

    def refusal(self, size: int) -> ResourceExhaustedError:
        """Counts and returns the error for bytes that are not available now."""
        for node in self._path():
            if node.parent is None:
                node.refused += 1
        full = self._first_without(size, self) or next((node for node in self._path() if node._line), self)
        return ResourceExhaustedError(
            f"the memory of this {full.name} is taken: read the answers that wait, or send and ask for less at once",
            retry_after_ms=_RETRY_AFTER_MS,
            bytes=size,
            taken_bytes=full.taken_bytes,
            limit_bytes=full.limit_bytes,
        )

    # ------------------------------------------------------------ waiting

    def wait(self, size: int, grant: Callable[[], None]) -> Waiter:
        """Queues a reservation; `grant` is called in its turn with the bytes taken, at once if there is room.

        Raises `ResourceExhaustedError` for more bytes than a limit on its path.
        """
        if any(size > node.limit_bytes for node in self._path()):
            raise self.refusal(size)
        waiter = Waiter(size, grant)
        self._waiting.append(waiter)
        if len(self._waiting) == 1:
            self._enter(self)
        return waiter

    def give_up(self, waiter: Waiter) -> None:
        """Cancels a waiting reservation, or releases a granted one."""
        if waiter.granted:
            self.release(waiter.bytes)
            return
        self._waiting.remove(waiter)
        line = self._line_of
        assert line is not None, "who waits stands in a line"
        if not self._waiting:
            line._line.remove(self)
            self._line_of = None
        line._serve_line()

    @property
    def is_idle(self) -> bool:
        """True when nothing is taken and no reservation waits, so it may be dropped."""
        return self.taken_bytes == 0 and not self._waiting and not self._line

    # ------------------------------------------------------------ turns

    def _path(self) -> Iterator[Budget]:
        node: Budget | None = self
        while node is not None:
            yield node
            node = node.parent

    def _take(self, size: int) -> None:
        node: Budget | None = self
        while node is not None:
            node.taken_bytes += size
            node = node.parent

    def _first_without(self, size: int, served: Budget) -> Budget | None:
        """Returns the nearest node without room, or with a line other than the one being served; None = there is room."""
        for node in self._path():
            if node.limit_bytes - node.taken_bytes < size or (node._line and node is not served):
                return node
        return None

    def _enter(self, served: Budget) -> None:
        """Grants reservations while there is room, then waits in the line of the node that has none for the next one."""
        while self._waiting:
            waiter = self._waiting[0]
            full = self._first_without(waiter.bytes, served)
            if full is not None:
                full._line.append(self)
                self._line_of = full
                return
            self._waiting.popleft()
            self._take(waiter.bytes)
            waiter.granted = True
            waiter.grant()
            served = self  # its turn has passed: the next one goes behind those in a line

    def _serve_line(self) -> None:
        """Serves the line while its first member has room, or must move on to the line of another full node."""
        while self._line:
            first = self._line[0]
            full = first._first_without(first._waiting[0].bytes, self)
            if full is self:
                return
            self._line.popleft()
            first._line_of = None
            first._enter(self)

    def check(self) -> None:
        """Asserts the invariants that one node can see."""
        assert 0 <= self.taken_bytes <= self.limit_bytes
        assert not self._waiting or self._line_of is not None, "who waits stands in a line"
        for child in self._line:
            assert child._line_of is self
            assert child._waiting
