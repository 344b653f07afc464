"""The common core of both ends of a link: it keeps the state, and gathers frames into envelopes. No I/O, clock or randomness.

The two cores are `client_core.ClientCore` and `server_core.ServerCore`. A shell gives them what happens, and in return

    receive(data)       takes an envelope, and says what it means: events, which the shell handles in their order;
    tick(now_ms)        takes the time, due at `wake_at_ms`, and says what timed out;
    data_to_send()      gives the next envelope, or b"" when nothing waits: the shell asks whenever it has called anything
                        else and whenever the envelope before was taken.

Rule 1: all that waits travels in one envelope, up to a bound; a larger frame goes alone. Nothing waits for more to come.
Rule 2: the order of frames on a link is the order in which the core was given them.
Rule 3: times are milliseconds of a clock that never steps back; which one is the shell's choice.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Final, Generic, TypeVar

from google.protobuf.message import DecodeError

from oncelog import errors
from oncelog.link import link_codec
from oncelog.link.link_codec import Frame
from oncelog.link.link_states import Incident, LinkState, Moves, Table
from oncelog.v1 import errors_pb2
from oncelog.wire.wire_errors import from_detail, to_detail

NEVER_MS: Final = float("inf")
ROUNDING_MS: Final = 0.5
"""Deadlines within this time count as due, since timers of event loops come a little early."""

Item = TypeVar("Item")


class LinkCore(Generic[Item]):
    """One end of a link. `Item` is what waits in the outbox: a frame, or what a frame is taken from when its turn comes."""

    TABLE: ClassVar[Table]

    def __init__(self, envelope_bytes: int) -> None:
        self.state = LinkState.HELLO
        self.wake_at_ms = NEVER_MS
        """Until then nothing can be due: the shell need not call `tick` before."""
        self._moves: Moves = self.TABLE[LinkState.HELLO]
        self._envelope_bytes = envelope_bytes
        self._greeting = b""
        self._outbox: deque[Item] = deque()

    @property
    def has_output(self) -> bool:
        """`data_to_send` may have something."""
        return bool(self._outbox or self._greeting)

    def _move(self, incident: Incident) -> None:
        """The one place that changes the state."""
        state = self._moves.get(incident)
        assert state is not None, f"there is no {incident.value} of a link that is {self.state.value}"
        if state is not self.state:
            self.state = state
            self._moves = self.TABLE[state]

    def _wake_by(self, deadline_ms: float) -> None:
        if deadline_ms < self.wake_at_ms:
            self.wake_at_ms = deadline_ms

    def _frame_of(self, item: Item) -> Frame | None:
        """Returns the frame for an item; None when its caller does not want it any more."""
        raise NotImplementedError

    def _gather(self) -> list[Frame]:
        """Returns the frames that wait, up to the size of an envelope, or one larger frame."""
        frames: list[Frame] = []
        total = 0
        outbox = self._outbox
        while outbox:
            frame = self._frame_of(outbox[0])
            if frame is not None:
                total += len(frame.header) + len(frame.payload) + link_codec.USUAL_OVERHEAD_BYTES
                if frames and total > self._envelope_bytes:
                    break
                frames.append(frame)
            outbox.popleft()
        return frames


def error_frame(correlation_id: int, error: errors.OncelogError, throttle_ms: int = 0) -> Frame:
    """The frame that says an error to the peer."""
    header = to_detail(error).SerializeToString()
    return Frame(correlation_id, link_codec.ERROR, header=header, throttle_ms=throttle_ms)


def error_in(frame: Frame, address: str) -> errors.OncelogError:
    """The error that an ERROR frame of the peer at `address` says."""
    try:
        return from_detail(errors_pb2.ErrorDetail.FromString(frame.header))
    except DecodeError:
        return errors.InvalidResponseError(f"{address} sent an error that cannot be parsed", address=address)
