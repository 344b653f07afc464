"""`python -m tests.fuzz.run --seconds 60 --target all`: fuzzes every parser that meets bytes from outside.

Each target runs in a process of its own, so a hang, a death or a bomb is a failure like another. A failing input is written
into the corpus, as `<kind>-<digest>`, and printed with the command that tries it again: there it is a test from then on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64decode
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

from tests.fuzz.engine import ROOT, Failure, Slate, judge, name_of
from tests.fuzz.target import TARGETS, Target, all_targets

CORPUS: Final = ROOT / "tests" / "fuzz" / "corpus"
_KEPT_BYTES: Final = 9_000
"""Of each target, so that the whole corpus stays small."""
_LONGEST_KEPT: Final = 1_500
_DEATHS_MAX: Final = 20
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Report:
    """One line of the table."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    places: int = 0
    crashes: int = 0
    hangs: int = 0
    bombs: int = 0
    worst_ms: float = 0.0
    worst_mib: float = 0.0
    files: list[str] = field(default_factory=list)

    @property
    def inputs_per_s(self) -> int:
        """Of the wall's time."""
        return round(self.inputs / self.seconds) if self.seconds else 0

    @property
    def failed(self) -> bool:
        """Anything."""
        return bool(self.crashes or self.hangs or self.bombs)


class Run:
    """One target, over as many lives of its process as it takes."""

    def __init__(self, target: Target, given: argparse.Namespace) -> None:
        self._target = target
        self._given = given
        self.report = Report(target.name)
        self.found: dict[str, bytes] = {}
        self._known: set[str] = set()

    def go(self) -> None:
        """Until the time is over."""
        began = time.monotonic()
        for life in range(_DEATHS_MAX):
            left = self._given.seconds - (time.monotonic() - began)
            if left <= 0 or self._live(self._given.seed + life, left) or self._is_enough:
                break
        self.report.seconds = time.monotonic() - began

    @property
    def _is_enough(self) -> bool:
        return bool(self._given.first and self.report.failed)

    def _live(self, seed: int, seconds: float) -> bool:
        """One process; False when it was lost."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "slate"
            slate = Slate(path, create=True)
            words = [sys.executable, "-m", "tests.fuzz.child", self._target.name, "--slate", str(path)]
            words += ["--seed", str(seed), "--seconds", str(seconds), "--corpus", str(self._given.corpus)]
            words += ["--plugin", self._given.plugin] if self._given.plugin else []
            words += ["--inputs", str(self._given.inputs)] if self._given.inputs else []
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
            try:
                return self._watch(child, slate)
            finally:
                child.kill()
                child.communicate()

    def _watch(self, child: subprocess.Popen[str], slate: Slate) -> bool:
        said: queue.Queue[str | None] = queue.Queue()
        assert child.stdout is not None
        threading.Thread(target=_lines, args=(child.stdout, said), daemon=True).start()
        number, cpu_s = -1, _cpu_s(child.pid)
        before = self.report.inputs
        while True:
            try:
                line = said.get(timeout=0.5)
            except queue.Empty:
                now = slate.read()[0]
                used_s = _cpu_s(child.pid)
                if now != number:
                    number, cpu_s = now, used_s
                elif now and used_s - cpu_s > 2 * self._target.limit_ms / 1000:
                    self.report.inputs = before + now
                    self._take(Failure("hang", "it does not come back", slate.read()[1]))
                    return False
                continue
            if line is None:
                return self._died(child, slate, before)
            if self._heard(json.loads(line), before):
                return True

    def _heard(self, told: dict[str, object], before: int) -> bool:
        """True: it is done."""
        if told["kind"] == "failure":
            data = b64decode(str(told["data"]))
            self._take(Failure(str(told["failure"]), str(told["says"]), data))
            return self._is_enough
        report = self.report
        report.inputs = before + int(str(told["inputs"]))
        report.places = max(report.places, int(str(told["places"])))
        report.worst_ms = max(report.worst_ms, float(str(told["worst_ms"])))
        report.worst_mib = max(report.worst_mib, float(str(told["worst_mib"])))
        if told["kind"] == "progress":
            self._progress()
            return False
        found = told["found"]
        assert isinstance(found, dict)
        self.found |= {place: b64decode(data) for place, data in found.items()}
        return True

    def _died(self, child: subprocess.Popen[str], slate: Slate, before: int) -> bool:
        child.wait()
        number, data = slate.read()
        self.report.inputs = before + number
        assert child.stderr is not None
        words = child.stderr.read()[-600:]
        if not number:
            raise SystemExit(f"{self._target.name} does not even start: {words}")
        self._take(Failure("death", f"the process ended with {child.returncode}: {words}", data))
        return False

    def _take(self, failure: Failure) -> None:
        report = self.report
        if failure.kind in ("hang", "slow"):
            report.hangs += 1
        elif failure.kind == "memory":
            report.bombs += 1
        else:
            report.crashes += 1
        path = self._given.corpus / self._target.name / f"{failure.kind}-{name_of(failure.data)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(failure.data)
        report.files.append(str(path))
        again = f"python -m tests.fuzz.run --target {self._target.name} --input {path}"
        _print(f"{self._target.name}: {failure.kind}: {failure.says}\n    again: {again}")

    def _progress(self) -> None:
        r = self.report
        if self._given.format == "text":
            _print(f"{r.target}: {r.inputs} inputs, {r.places} places, {r.crashes + r.hangs + r.bombs} failures")


def _lines(stream: IO[str], said: queue.Queue[str | None]) -> None:
    for line in stream:
        said.put(line)
    said.put(None)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def keep(target: str, found: dict[str, bytes], corpus: Path) -> int:
    """Writes the smallest input of each place, as long as there is room; returns the bytes."""
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*"):
        if "-" not in path.name:  # failures stay
            path.unlink()
    written = sum(path.stat().st_size for path in folder.glob("*"))
    for data in sorted(
        {data for place, data in found.items() if not place.startswith("crash")}, key=lambda d: (len(d), d)
    ):
        if len(data) > _LONGEST_KEPT or written + len(data) > _KEPT_BYTES:
            continue
        (folder / name_of(data)).write_bytes(data)
        written += len(data)
    return written


def _try_again(target: Target, path: Path) -> int:
    outcome = judge(target, path.read_bytes())
    _print(f"{outcome.place}; {outcome.ms:.1f} ms, {outcome.mib:.1f} MiB")
    if outcome.failure is not None:
        _print(f"{outcome.failure.kind}: {outcome.failure.says}")
    return int(outcome.failure is not None)


def _table(reports: list[Report], form: str) -> str:
    if form == "json":
        return json.dumps([{**asdict(r), "inputs_per_s": r.inputs_per_s} for r in reports], indent=1)
    columns = ("inputs", "inputs_per_s", "places", "crashes", "hangs", "bombs", "worst_ms", "worst_mib")
    head = f"{'target':<20}" + "".join(f"{name.replace('_', ' '):>13}" for name in columns)
    lines = [f"{r.target:<20}" + "".join(f"{getattr(r, name):>13}" for name in columns) for r in reports]
    return "\n".join((head, *lines))


def main() -> int:
    """Exit status 1 when anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--target", default="all", help="a name, several with commas, or all")
    parser.add_argument("--seconds", type=float, default=60, help="for each target")
    parser.add_argument("--inputs", type=int, default=0, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--keep", action="store_true", help="write what was found into the corpus")
    parser.add_argument("--first", action="store_true", help="end a target at its first failure")
    parser.add_argument("--input", type=Path, help="try just this file")
    parser.add_argument("--plugin", default="", help="a module that adds more targets")
    parser.add_argument("--list", action="store_true", help="print the targets")
    given = parser.parse_args()
    if given.plugin:
        importlib.import_module(given.plugin)
    targets = {**all_targets(), **TARGETS}
    if given.list:
        print("\n".join(targets))
        return 0
    wanted = list(all_targets()) if given.target == "all" else given.target.split(",")
    for name in wanted:
        if name not in targets:
            parser.error(f"no target {name}; there are {', '.join(targets)}")
    if given.input is not None:
        return _try_again(targets[wanted[0]], given.input)
    _print(f"seed {given.seed}, {given.seconds:.0f} s for each of {len(wanted)} targets")
    reports = []
    for name in wanted:
        run = Run(targets[name], given)
        run.go()
        reports.append(run.report)
        if given.keep:
            keep(name, run.found, given.corpus)
    print(_table(reports, given.format))
    return int(any(report.failed for report in reports))


if __name__ == "__main__":
    sys.exit(main())
