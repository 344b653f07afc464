"""`make chart`: every check of the chart, one line each with counts; what is skipped for want of a tool is named.

    python -m tests.chart.run [--update]

Exit code 1 when anything fails, or when there is no Helm at all. `--update` writes the golden files, README and schema anew.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import yaml

from scripts import chart_docs
from tests.chart import fit, golden, past, policy, schemas
from tests.chart.tools import (
    CHART,
    Document,
    Helm,
    RenderError,
    case_name,
    documents,
    find_program,
    helms,
    value_files,
)

REFUSED: Final = Path(__file__).parent / "refused.yaml"
_SHOWN_MAX: Final = 20


class Skip(Exception):
    """The check needs something that is not here; the text names it."""


class Report:
    """Runs checks and says what came of them."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.skipped: list[str] = []
        self.passed: list[str] = []

    def check(self, name: str, work: Callable[[], Iterator[str]], counted: str = "") -> None:
        """Runs one check. `work` yields problems; `counted` says what was looked at."""
        begin = time.monotonic()
        try:
            found = list(work())
        except Skip as skip:
            self.skipped.append(name)
            print(f"  skip  {name}: {skip}")
            return
        except RenderError as error:
            found = [str(error)]
        took = f"{time.monotonic() - begin:.1f} s"
        if not found:
            self.passed.append(name)
            print(f"  ok    {name}{': ' + counted if counted else ''} ({took})")
            return
        self.failed.append(name)
        print(f"  FAIL  {name} ({took})")
        for problem in found[:_SHOWN_MAX]:
            print("        " + problem.replace("\n", "\n        "))
        if len(found) > _SHOWN_MAX:
            print(f"        ... and {len(found) - _SHOWN_MAX} more")


class Gate:
    """All checks over one set of renderings."""

    def __init__(self, update: bool) -> None:
        self.update = update
        self.cases = value_files()
        self.rendered: dict[str, list[Document]] = {}
        self.all: list[Document] = []

    # ------------------------------------------------------------ with helm

    def helm(self, major: int = 0) -> Helm:
        """A Helm of a major version, or the newest. Raises `Skip`."""
        found = helms()
        if major and major not in found:
            raise Skip(f"no Helm {major} (PATH, or the variable {'HELM' if major == 4 else 'HELM3'})")
        if not found:
            raise Skip("no Helm (PATH, or the variable HELM)")
        return found[major or max(found)]

    def lint(self, major: int) -> Iterator[str]:
        """`helm lint --strict` with each value file."""
        helm = self.helm(major)
        for values in self.cases:
            try:
                helm.run("lint", "--strict", CHART, "--values", values)
            except RenderError as error:
                yield f"{case_name(values)}: {error}"

    def render(self) -> Iterator[str]:
        """Each value file with the newest Helm."""
        helm = self.helm()
        for values in self.cases:
            name = case_name(values)
            try:
                self.rendered[name] = documents(helm.template(values))
            except RenderError as error:
                yield f"{name}: {error}"
        self.all = schemas.distinct([document for found in self.rendered.values() for document in found])

    def same_in_both(self) -> Iterator[str]:
        """Helm 3 renders the same objects as Helm 4."""
        self.helm(4)
        old = self.helm(3)
        for values in self.cases:
            if documents(old.template(values)) != self.rendered.get(case_name(values)):
                yield f"{case_name(values)}: Helm 3 renders other objects"

    def golden(self) -> Iterator[str]:
        """The renderings are the ones in the repository."""
        self.helm()
        golden.FOLDER.mkdir(exist_ok=True)
        for name, found in self.rendered.items():
            path = golden.path_of(name)
            now = golden.written(found, None if name == golden.BASE else self.rendered[golden.BASE])
            if self.update:
                path.write_text(now, encoding="utf-8")
            elif (before := path.read_text(encoding="utf-8") if path.exists() else "") != now:
                lines = difflib.unified_diff(
                    before.splitlines(), now.splitlines(), f"{name} before", f"{name} now", n=1, lineterm=""
                )
                yield "\n".join(list(lines)[:40])
        for name in golden.names():
            if name not in self.rendered:
                yield f"{golden.path_of(name).name} has no value file any more"

    def refused(self) -> Iterator[str]:
        """Values that do not fit together are refused, by a sentence that says what to do."""
        helm = self.helm()
        for case in yaml.safe_load(REFUSED.read_text(encoding="utf-8")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                yaml.safe_dump(case["values"], file)
                file.flush()
                try:
                    helm.template(Path(file.name))
                    yield f"{case['name']}: accepted, and should not be"
                except RenderError as error:
                    if case["says"] not in str(error):
                        yield f"{case['name']}: refused with other words: {error}"

    def version_free(self) -> Iterator[str]:
        """Another chart version changes nothing that cannot change."""
        helm = self.helm()
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "oncelog"
            subprocess.run(["cp", "-r", str(CHART), str(copy)], check=True)
            chart = yaml.safe_load((copy / "Chart.yaml").read_text(encoding="utf-8"))
            chart.update(version="99.9.9", appVersion="99.9.9")
            (copy / "Chart.yaml").write_text(yaml.safe_dump(chart), encoding="utf-8")
            for values in self.cases:
                after = documents(helm.template(values, chart=copy))
                yield from (f"{case_name(values)}: {p}" for p in past.problems(self.rendered[case_name(values)], after))

    def upgrade(self) -> Iterator[str]:
        """From the last version of the chart, with its default values, to this one."""
        helm = self.helm()
        revision = past.previous_revision()
        if revision is None:
            raise Skip("no earlier chart (no git, or none committed)")
        with tempfile.TemporaryDirectory() as folder:
            before = documents(helm.template(chart=past.unpack(revision, Path(folder))))
        yield from past.problems(before, documents(helm.template()))

    # ------------------------------------------------------------ over the renderings

    def over_all(self, find: Callable[[list[Document]], list[str]]) -> Callable[[], Iterator[str]]:
        """A check of each rendering."""

        def work() -> Iterator[str]:
            self.helm()
            for name, found in self.rendered.items():
                yield from (f"{name}: {problem}" for problem in find(found))

        return work

    def schema(self, version: str) -> Iterator[str]:
        """Kubernetes's strict schemas."""
        self.helm()
        root = schemas.schema_folder()
        if root is None:
            raise Skip("no schemas (.venv-chart, or the variable KUBERNETES_SCHEMAS)")
        yield from schemas.problems(self.all, version, root)

    def kubeconform(self) -> Iterator[str]:
        """A second opinion on the schemas."""
        self.helm()
        program, root = find_program("KUBECONFORM", "kubeconform"), schemas.schema_folder()
        if program is None or root is None:
            raise Skip("no kubeconform (PATH, or the variable KUBECONFORM)")
        with tempfile.TemporaryDirectory() as folder:
            for version in schemas.VERSIONS:
                yield from schemas.kubeconform(program, self.all, version, root, Path(folder))

    # ------------------------------------------------------------ files

    def docs(self) -> Iterator[str]:
        """README.md and values.schema.json are what values.yaml says."""
        if self.update:
            chart_docs.main([])
        for name in chart_docs.drift():
            yield f"helm/oncelog/{name} is out of date: make chart ARGS=--update"

    def alerts(self) -> Iterator[str]:
        """The alert rules, and their tests."""
        program = find_program("PROMTOOL", "promtool")
        rules, tests = CHART / "files" / "alerts.yaml", CHART / "files" / "alerts_test.yaml"
        if not rules.exists():
            raise Skip("there are no alert rules yet")
        if program is None:
            raise Skip("no promtool (PATH, or the variable PROMTOOL)")
        for arguments in (["check", "rules", rules.name], ["test", "rules", tests.name]):
            done = subprocess.run(
                [program, *arguments], cwd=rules.parent, capture_output=True, text=True, timeout=120, check=False
            )
            if done.returncode != 0:
                yield f"promtool {' '.join(arguments)}: {done.stdout.strip()} {done.stderr.strip()}"


def main(arguments: list[str] | None = None) -> int:
    """Runs everything; the exit code."""
    parser = argparse.ArgumentParser(prog="make chart", description="Check the Helm chart.")
    parser.add_argument("--update", action="store_true", help="write golden files, README and schema anew")
    gate, report = Gate(parser.parse_args(arguments).update), Report()
    count = len(gate.cases)
    print("chart: " + (", ".join(f"Helm {helm.version}" for helm in helms().values()) or "no Helm found"))
    report.check("README and values schema are up to date", gate.docs)
    report.check(f"{count} value files render", gate.render)
    objects = f"{len(gate.all)} different objects"
    for major in (4, 3):
        report.check(f"lint with Helm {major}", lambda major=major: gate.lint(major), f"{count} value files")  # type: ignore[misc]
    report.check("Helm 3 and Helm 4 render the same", gate.same_in_both)
    for version in schemas.VERSIONS:
        report.check(f"strict schemas of Kubernetes {version}", lambda v=version: gate.schema(v), objects)  # type: ignore[misc]
    report.check("kubeconform, all three versions", gate.kubeconform, objects)
    report.check("policy", gate.over_all(policy.problems), f"{len(policy.RULES)} rules, {count} renderings")
    report.check("the services accept their settings and ports", gate.over_all(fit.problems), f"{count} renderings")
    report.check("golden files", gate.golden, f"{count} files")
    report.check("wrong values are refused", gate.refused, f"{len(yaml.safe_load(REFUSED.read_text()))} cases")
    report.check("no immutable field has the chart version", gate.version_free, f"{count} renderings")
    report.check(f"upgrade from {past.previous_revision() or 'nothing'}", gate.upgrade)
    report.check("alert rules", gate.alerts)
    print(f"chart: {len(report.passed)} passed, {len(report.failed)} failed, {len(report.skipped)} skipped")
    return 1 if report.failed or not helms() else 0


if __name__ == "__main__":
    sys.exit(main())
