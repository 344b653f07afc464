"""The loop over one target, in a process of its own: judge an input, remember what was new, and say what is wrong.

Rule 1: everything follows from the seed: the same seed tries the same inputs in the same order.
Rule 2: an input that ends in a place where none ended before is kept in memory and mutated further. A place is what was raised,
        and the lines of ours that it came through; of what was parsed, how large it was.
Rule 3: the input that is tried lies in a shared file, so that the parent has it when this process hangs or dies.
Rule 4: time is CPU time, which a machine that is busy, or stops us for a while, does not change.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import resource
import struct
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final

from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Target

ROOT: Final = Path(__file__).resolve().parents[2]
SLATE_BYTES: Final = 1 << 20
_SLATE: Final = struct.Struct("<QI")
_PLACES_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Failure:
    """One input that breaks a promise. `kind`: crash, slow, memory; the parent adds hang and death."""

    kind: str
    says: str
    data: bytes


@dataclass(slots=True)
class Outcome:
    """Of one input."""

    place: str
    ms: float
    mib: float
    failure: Failure | None


class Slate:
    """The input that is being tried, and how many there were, for whoever looks from outside."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(SLATE_BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SLATE_BYTES)

    def write(self, number: int, data: bytes) -> None:
        """Before the input is tried."""
        kept = data[: SLATE_BYTES - _SLATE.size]
        self._map[: _SLATE.size] = _SLATE.pack(number, len(kept))
        self._map[_SLATE.size : _SLATE.size + len(kept)] = kept

    def read(self) -> tuple[int, bytes]:
        """(how many, the last one)"""
        number, length = _SLATE.unpack(self._map[: _SLATE.size])
        return number, self._map[_SLATE.size : _SLATE.size + length]


def judge(target: Target, data: bytes) -> Outcome:
    """Tries one input."""
    _forget_peak()
    peak_before = _peak_mib()
    began = time.process_time()
    failure: Failure | None = None
    try:
        place = f"parsed {_shape(target.run(data))}"
    except target.allowed as error:
        place = _place(error, error.__traceback__)
    except MemoryError as error:
        place = "memory"
        failure = Failure("memory", _told(error), data)
    except Exception as error:
        place = f"crash {_place(error, error.__traceback__)}"
        failure = Failure("crash", _told(error), data)
    ms = (time.process_time() - began) * 1000
    mib = _peak_mib() - peak_before
    if failure is None and ms > target.limit_ms:
        failure = Failure("slow", f"{ms:.0f} ms of CPU, {target.limit_ms} are allowed", data)
    if failure is None and mib > target.limit_mib:
        failure = Failure("memory", f"{mib:.0f} MiB, {target.limit_mib} are allowed", data)
    return Outcome(place, ms, mib, failure)


def _forget_peak() -> None:
    """From here on the peak is of what comes, and not of an import long ago that needed more for a moment."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> float:
    """Not `ru_maxrss` where it can be helped: that begins with what the parent had at the fork, and hides as much."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _place(error: BaseException, trace: TracebackType | None) -> str:
    lines = []
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(str(ROOT)) and "/tests/" not in path:
            lines.append(f"{path.rsplit('/', 1)[-1]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} {' '.join(lines[-4:])}"


def _told(error: BaseException) -> str:
    frames = [
        f"{frame.filename.removeprefix(str(ROOT) + '/')}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return f"{type(error).__name__}: {str(error)[:300]} at {' '.join(frames[-3:])}"


def _shape(value: object) -> str:
    if isinstance(value, str):  # the target says itself what is new
        return value[:80]
    try:
        return f"{type(value).__name__} {len(value).bit_length()}"  # type: ignore[arg-type]
    except TypeError:
        return type(value).__name__


def name_of(data: bytes) -> str:
    """Of a file that holds an input."""
    return hashlib.sha256(data).hexdigest()[:16]


def inputs_in(folder: Path) -> list[bytes]:
    """The kept inputs of a target, in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []


@dataclass(slots=True)
class Campaign:
    """One run over one target. `found`: place -> the first, then ever smaller, input that ended there."""

    target: Target
    seed: int
    kept: Iterable[bytes] = ()
    inputs: int = 0
    worst_ms: float = 0.0
    worst_mib: float = 0.0
    found: dict[str, bytes] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    def run(self, slate: Slate | None = None) -> Iterator[Failure | None]:
        """Judges inputs for ever; yields after each, with a failure of a new kind when there is one."""
        random = Random(f"{self.seed}:{self.target.name}")
        mutator = Mutator(random, self.target.words, self.target.max_bytes)
        corpus = [*self.target.seeds(), *self.kept]
        for data in corpus:
            yield self._try(data, corpus, slate)
        while True:
            base = (
                corpus[-1 - random.randrange(min(8, len(corpus)))] if random.random() < 0.2 else random.choice(corpus)
            )
            data = mutator.mutated(base, corpus)
            if self.target.mend is not None and random.random() < 0.8:
                data = self.target.mend(data, random)
            yield self._try(data, corpus, slate)

    def _try(self, data: bytes, corpus: list[bytes], slate: Slate | None) -> Failure | None:
        self.inputs += 1
        if slate is not None:
            slate.write(self.inputs, data)
        outcome = judge(self.target, data)
        self.worst_ms = max(self.worst_ms, outcome.ms)
        self.worst_mib = max(self.worst_mib, outcome.mib)
        known = self.found.get(outcome.place)
        is_new = known is None and len(self.found) < _PLACES_MAX
        if is_new:
            corpus.append(data)
        if is_new or (known is not None and len(data) < len(known)):
            self.found[outcome.place] = data
        failure = outcome.failure
        if failure is None or outcome.place in self.failures:
            return None
        self.failures[outcome.place] = failure
        return failure
