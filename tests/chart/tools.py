"""The programs that the checks run, if they are there.

Rule: a tool is named by an environment variable, else found on PATH; what is missing is reported by name, never guessed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "helm" / "oncelog"
RELEASE: Final = "oncelog"
NAMESPACE: Final = "default"

Document = dict[str, Any]


class RenderError(Exception):
    """Helm refused; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm program."""

    path: str
    version: str

    @property
    def major(self) -> int:
        """3 or 4."""
        return int(self.version.lstrip("v").split(".")[0])

    def run(self, *arguments: str | Path) -> str:
        """Its output. Raises `RenderError`."""
        command = [self.path, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RenderError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def template(self, *values: Path, chart: Path = CHART, sets: tuple[str, ...] = ()) -> str:
        """The rendered chart."""
        flags = [flag for file in values for flag in ("--values", str(file))]
        flags += [flag for pair in sets for flag in ("--set", pair)]
        return self.run("template", RELEASE, chart, "--namespace", NAMESPACE, *flags)


def find_program(variable: str, *names: str) -> str | None:
    """A program named by a variable, else the first of the names on PATH."""
    if given := os.environ.get(variable):
        return shutil.which(given)
    return next((found for name in names if (found := shutil.which(name))), None)


@cache
def helms() -> dict[int, Helm]:
    """Helm 4 and Helm 3, by major version, as far as they are there: $HELM, $HELM3, or on PATH."""
    found: dict[int, Helm] = {}
    for path in (find_program("HELM", "helm4", "helm"), find_program("HELM3", "helm3", "helm")):
        if path is None:
            continue
        said = subprocess.run(
            [path, "version", "--short"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
        if match := re.search(r"v\d+\.\d+\.\d+", said):
            helm = Helm(path, match[0])
            found.setdefault(helm.major, helm)
    return found


def documents(text: str) -> list[Document]:
    """The objects of a rendering, empty documents left out."""
    return [document for document in yaml.safe_load_all(text) if document]


def value_files() -> list[Path]:
    """The examples that are rendered, by name."""
    return sorted((CHART / "ci").glob("*-values.yaml"))


def case_name(values: Path) -> str:
    """`default` of `default-values.yaml`."""
    return values.name.removesuffix("-values.yaml")


def label(document: Document) -> str:
    """Kind/name, for messages."""
    return f"{document.get('kind', '?')}/{document.get('metadata', {}).get('name', '?')}"
