"""`python -m tests.hostile.flips --flips 500`: turned bits, one at a time, in every kind of file of a broker's data directory.

The directory is that of a scripted run over real files (`tests/faults/scripted_logs`), as a kill leaves it at different
steps, so that the leftovers of compaction (`.cleaned`, `.compacted`), of recovery (`.swap`) and logs that were set aside are
among its files. For each flip one bit of one byte is turned, and the broker's own classes open the log, read all of it,
use it, and open it again. Then exactly one of these has to be so:

    unharmed   the log is as it was, and the file was not needed, or not changed by it
    rebuilt    the log is as it was, and the damaged file was written anew from the others
    told       a part of the log was cut off or set aside, and the log says so: it does not vouch for what it held, and its
               leader fills it again
    refused    the log does not open: a `StorageError` says why

Never another byte, another producer state or aborted transaction, never a claim or a seal that says more than before.

Exit status 1 when one flip had another end.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from oncelog.errors import OncelogError, StorageError
from tests.faults.crash_points import Run, recorded
from tests.faults.file_journal import Crash, build, unsynced
from tests.faults.scripted_logs import LOG_DIR, Found, around, directory, found_in, judged

Left = Mapping[str, bytes | None]
_NUMBERS: Final = re.compile(r"\d{20}")
_STEPS: Final = 120
"""So many moments of the run are taken; each is a data directory of its own."""


class Flip(NamedTuple):
    """One turned bit, in a directory as a kill after `count` steps leaves it."""

    count: int
    path: str
    position: int
    bit: int

    def of(self, left: Left) -> dict[str, bytes | None]:
        """The directory with this bit turned."""
        data = bytearray(left[self.path] or b"")
        data[self.position] ^= 1 << self.bit
        return {**left, self.path: bytes(data)}

    def __str__(self) -> str:
        return f"bit {self.bit} of byte {self.position} of {self.path}, as a kill after step {self.count} leaves it"


@dataclass
class Report:
    """How the flips ended, by kind of file, and which of them should not have ended so."""

    ends: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The table."""
        for kind in sorted(self.ends):
            yield f"  {kind:22s} " + ", ".join(f"{count} {end}" for end, count in sorted(self.ends[kind].items()))
        total = sum((ends for ends in self.ends.values()), Counter[str]())
        yield f"  {'all':22s} " + ", ".join(f"{count} {end}" for end, count in sorted(total.items()))


def kind_of(path: str) -> str:
    """The kind of a file: its name without offsets, and whether its log was set aside."""
    name = _NUMBERS.sub("*", path.rpartition("/")[2])
    return f"{name} (set aside)" if ".quarantined-" in path else name


def log_of(run: Run, path: str, random: Random) -> str:
    """The log to open: the one to which the file belongs, or any for a file of the whole directory."""
    own = [name for name in run.script.marks if path.startswith(directory(name))]
    return own[0] if own else random.choice(list(run.script.marks))


def _before_renames(run: Run) -> Iterator[int]:
    """For each kind of file that is renamed, the first step before which it lies there: some are there for one step only."""
    seen: set[str] = set()
    for count, op in enumerate(run.journal.ops):
        if op.kind == "rename" and kind_of(op.path) not in seen:
            seen.add(kind_of(op.path))
            yield count


class Flips:
    """Turns bits in the directories of one run; `report` is what came of it."""

    def __init__(self, run: Run, folder: Path, seed: int) -> None:
        self._run = run
        self._folder = folder
        self._random = Random(seed)
        self._tries = 0
        self._sound: dict[tuple[int, str], Found] = {}
        end = len(run.journal.ops)
        steps = {*self._random.sample(range(end), min(_STEPS, end)), *_before_renames(run)}
        self._counts = [end, *sorted(steps)]
        self._left = {count: run.journal.crash(count, Crash.KILL, Random(0)) for count in self._counts}
        self._by_kind: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for count, left in self._left.items():
            for path, data in left.items():
                if data:
                    self._by_kind[kind_of(path)].append((count, path))
        self.report = Report()

    @property
    def kinds(self) -> list[str]:
        """The kinds of files there are."""
        return sorted(self._by_kind)

    def turn(self, flips: int) -> None:
        """Turns so many bits, of every kind of file about as many, and judges each."""
        for number in range(flips):
            kind = self.kinds[number % len(self.kinds)]
            count, path = self._random.choice(self._by_kind[kind])
            data = self._left[count][path] or b""
            flip = Flip(count, path, self._random.randrange(len(data)), self._random.randrange(8))
            self._judge(kind, flip)

    def _judge(self, kind: str, flip: Flip) -> None:
        name = log_of(self._run, flip.path, self._random)
        try:
            end = self.end_of(flip, name)
        except (AssertionError, OncelogError, ValueError, LookupError, TypeError) as error:
            end = "WRONG"
            said = str(error).partition("\n")[0] or repr(error)
            self.report.wrong.append(f"{flip}: {name}: {type(error).__name__}: {said}")
        self.report.ends[kind][end] += 1

    def end_of(self, flip: Flip, name: str) -> str:
        """Opens the log over the flip; how that ended. Raises `AssertionError` for an end that must not be."""
        marks = self._run.script.marks[name]
        if flip.count < marks[0].position:
            return "unharmed"
        before, after = around(marks, flip.count)
        sound = self._as_it_was(flip.count, name)
        try:
            found, root = self._opened(flip.of(self._left[flip.count]), name)
        except StorageError as error:
            return f"refused ({error.context['reason']})"
        _claims_no_more(found, sound)
        if not found.vouches and found.view != sound.view:
            judged(name, found, before._replace(is_lost=True), after, is_power_cut=False)
            same_batches = found.view.batches == sound.view.batches
            assert not same_batches or found.view.producers == sound.view.producers, "the same log has other producers"
            return "told"
        judged(name, found, before, after, is_power_cut=False)
        file = root / flip.path
        damaged = flip.of(self._left[flip.count])[flip.path]
        return "unharmed" if file.is_file() and file.read_bytes() == damaged else "rebuilt"

    def _as_it_was(self, count: int, name: str) -> Found:
        key = count, name
        if key not in self._sound:
            self._sound[key], _ = self._opened(self._left[count], name)
        return self._sound[key]

    def _opened(self, left: Left, name: str) -> tuple[Found, Path]:
        self._tries += 1
        root = self._folder / f"{self._tries}"
        mine = directory(name)
        build(root, {path: data for path, data in left.items() if path.startswith(mine) or _is_shared(path)})
        with unsynced():
            return asyncio.run(found_in(root, name, None)), root


def _is_shared(path: str) -> bool:
    return path == LOG_DIR or (path.count("/") <= 1 and not path.endswith(".lock") and "-" not in path)


def _claims_no_more(found: Found, sound: Found) -> None:
    """Asserts that the log vouches for no more than it did without the flip."""
    assert found.claim.intact_since >= sound.claim.intact_since or found.is_quarantined, (
        f"it vouches since {found.claim.intact_since} instead of {sound.claim.intact_since}"
    )
    assert found.seal in (None, sound.seal), f"its seal says {found.seal} instead of {sound.seal}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Turns bits in the files of a broker's data directory.")
    parser.add_argument("--flips", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        run = recorded(Path(folder) / "run")
        flips = Flips(run, Path(folder) / "flips", options.seed)
        flips.turn(options.flips)
    print(f"{options.flips} flips over {len(flips.kinds)} kinds of files, seed {options.seed}")
    for line in flips.report.lines():
        print(line)
    for line in flips.report.wrong:
        print(f"wrong: {line}")
    print(f"{len(flips.report.wrong)} wrong")
    return 1 if flips.report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
