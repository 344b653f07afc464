"""`python -m tests.faults.crash_points`: a broker's logs are killed, and lose power, at every write, sync, rename and removal.

One scripted run over real files (`scripted_logs`: appends, transactions and markers, new segments, snapshots, cuts,
retention, compaction, a seal, a rotten log that is set aside and filled again, clean and unclean stops) is recorded step by
step (`file_journal`). Then, for every step and for each way in which a process or a machine may end there, the folder
is made as the crash would have left it, the logs are opened and read as a broker does, used, closed and opened again.

    --every 7      every seventh step only
    --planted      plants each bug of `planted_disk_bugs` in turn, and says whether the crashes find it

Prints how many crashes there were of each kind, and each that left something else than `scripted_logs` allows; exit
status 1 when there is one, or a planted bug that nobody found. Runs for about two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from oncelog.errors import OncelogError
from tests.faults.file_journal import Crash, Journal, build, recording, unsynced
from tests.faults.planted_disk_bugs import PLANTED
from tests.faults.scripted_logs import LOG_DIR, Script, around, directory, found_in, judged, recorded_script

ANOTHER_BOOT: Final = "another boot"


@dataclass
class Run:
    """One recorded run of the script."""

    journal: Journal
    script: Script


@dataclass
class Result:
    """What a sweep has found. `crashes`: of each kind, as they were tried; `opened`: logs that were not alike before."""

    steps: int = 0
    crashes: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    wrong: list[str] = field(default_factory=list)


def recorded(root: Path) -> Run:
    """Runs the script below `root`, which is made."""
    root.mkdir(parents=True, mode=0o700)
    journal = Journal(root.resolve())
    with recording(journal):
        return Run(journal, recorded_script(journal.root, lambda: len(journal.ops)))


def sweep(run: Run, folder: Path, steps: Sequence[int], seed: int = 1, wrong_max: int = 1_000_000) -> Result:
    """Crashes the run after each of these steps in every way; ends early after `wrong_max` findings."""
    result = Result(len(steps))
    known: set[object] = set()
    for count, how in ((count, how) for count in steps for how in Crash):
        left = run.journal.crash(count, how, Random(f"{seed} {count} {how.name}"))
        result.crashes[how.value] += 1
        for name, files, key in _logs(run, left, count, how):
            if key in known:
                continue
            known.add(key)
            result.opened += 1
            found = _tried(run, folder / f"{result.opened}", name, files, count, how)
            if found is not None:
                result.wrong.append(found)
                if len(result.wrong) >= wrong_max:
                    return result
    return result


def _logs(
    run: Run, left: dict[str, bytes | None], count: int, how: Crash
) -> Iterator[tuple[str, dict[str, bytes | None], object]]:
    """Yields the logs that had begun, each with its files, and a key that is equal where nothing else can come out."""
    for name, marks in run.script.marks.items():
        if count < marks[0].position:
            continue
        mine = directory(name)
        files = {
            path: data
            for path, data in left.items()
            if path.startswith(mine) or path in (LOG_DIR, f"{LOG_DIR}/directory.json")
        }
        before, _ = around(marks, count)
        yield (
            name,
            files,
            (name, how.is_power_cut, before.position, tuple(sorted(files.items(), key=lambda one: one[0]))),
        )


def _tried(run: Run, root: Path, name: str, files: dict[str, bytes | None], count: int, how: Crash) -> str | None:
    """Opens one log; what is wrong with it, None for nothing."""
    build(root, files)
    before, after = around(run.script.marks[name], count)
    try:
        with unsynced():
            found = asyncio.run(found_in(root, name, ANOTHER_BOOT if how.is_power_cut else None))
        judged(name, found, before, after, how.is_power_cut)
    except (AssertionError, OncelogError, ValueError, LookupError) as error:
        step = run.journal.ops[count - 1] if count else None
        last = f"{step.kind} {step.path}" if step else "nothing"
        said = str(error).partition("\n")[0] or repr(error)
        return f"{name}, {how.value} after step {count} ({last}), between {before.what!r} and {after.what!r}: {said}"
    return None


def found_bug(folder: Path, planted: AbstractContextManager[object], every: int) -> str | None:
    """Runs and crashes the script with a planted bug; the first thing that is wrong, None when nobody notices."""
    with planted:
        try:
            run = recorded(folder / "run")
        except (AssertionError, OncelogError) as error:
            return f"the script itself fails: {error}"
        result = sweep(run, folder / "crashes", range(0, len(run.journal.ops) + 1, every), wrong_max=1)
    return result.wrong[0] if result.wrong else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Crashes a broker's logs at every step of their disk.")
    parser.add_argument("--every", type=int, default=1, help="take every n-th step (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what a power cut keeps (default: %(default)s)")
    parser.add_argument("--planted", action="store_true", help="find planted bugs instead")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        if options.planted:
            return _planted(Path(folder), options.every)
        run = recorded(Path(folder) / "run")
        steps = range(0, len(run.journal.ops) + 1, options.every)
        result = sweep(run, Path(folder) / "crashes", steps, options.seed)
    print(f"{len(run.journal.ops)} steps of the disk, {result.steps} tried, {result.opened} different logs opened")
    for kind, count in result.crashes.items():
        print(f"  {count:6d} {kind}")
    for line in result.wrong:
        print(f"wrong: {line}")
    print(f"{len(result.wrong)} wrong")
    return 1 if result.wrong else 0


def _planted(folder: Path, every: int) -> int:
    missed = 0
    for number, (name, planted) in enumerate(PLANTED.items()):
        with nullcontext():
            found = found_bug(folder / f"{number}", planted(), every)
        missed += found is None
        print(f"{'found ' if found else 'MISSED'} {name}: {found or 'no crash shows it'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
