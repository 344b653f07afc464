"""The examples in other languages do what they say: produce idempotently, a transaction over three partitions, read_committed.

Rule: where a toolchain is absent or its modules cannot be reached, a test is skipped and says so; what else goes wrong fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog_runtime.local import LocalCluster
from tests.integration.conftest import ROOT
from tests.integration.test_examples import values

BUILD_S = 560
RUN_S = 120
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
NPM, NODE = shutil.which("npm"), shutil.which("node")
UNREACHABLE = re.compile(
    r"dial tcp|i/o timeout|TLS handshake|no such host|module lookup disabled|403 Forbidden|502 Bad Gateway"
    r"|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|E403|E502|code E404"
)

pytestmark = pytest.mark.slow


def protoc() -> str:
    """A protocol compiler: `PROTOC`, the pinned one of `make protos`, or the machine's."""
    if given := os.environ.get("PROTOC"):
        return given
    pinned = ROOT / ".venv-protos" / "bin" / "python"
    if pinned.exists():
        return f"{pinned} -m grpc_tools.protoc"
    return shutil.which("protoc") or pytest.skip("no protoc: `make protos` brings one")


def laid_out(tmp_path: Path, language: str) -> Path:
    """A copy of the example, beside a copy of protos/ as in the repository; what is built there is built nowhere else."""
    built = shutil.ignore_patterns("bin", "v1", "node_modules")
    folder = tmp_path / "examples" / language
    shutil.copytree(ROOT / "examples" / language, folder, ignore=built)
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    return folder


def build(folder: Path, *command: str, **environment: str) -> None:
    """Runs a step that may need modules from elsewhere."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=BUILD_S, check=False
    )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode != 0 and UNREACHABLE.search(said):
        pytest.skip(f"modules cannot be had: {said.strip().splitlines()[-1]}")
    assert done.returncode == 0, said[-3000:]


def go(tmp_path: Path) -> tuple[Path, list[str]]:
    if GO is None:
        pytest.skip("no Go on this machine")
    folder = laid_out(tmp_path, "go")
    path = f"{Path(GO).parent}{os.pathsep}{os.environ['PATH']}"
    build(folder, "./generate.sh", PROTOC=protoc(), PATH=path)
    build(folder, GO, "vet", ".")
    build(folder, GO, "build", "-o", "example", ".")
    return folder, ["./example"]


def node(tmp_path: Path) -> tuple[Path, list[str]]:
    if NPM is None or NODE is None:
        pytest.skip("no Node on this machine")
    folder = laid_out(tmp_path, "node")
    build(folder, NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    return folder, [NODE, "main.js"]


@pytest.mark.parametrize("language", [go, node], ids=lambda language: language.__name__)
def test_an_example_does_what_it_says(
    cluster: LocalCluster, tmp_path: Path, language: Callable[[Path], tuple[Path, list[str]]]
) -> None:
    folder, command = language(tmp_path)
    topic = f"example-{language.__name__}"
    address = cluster.bootstrap_servers.split(",")[-1]
    done = subprocess.run(
        [*command, address, topic], cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[:2] == ["wrote at 0, duplicate: false", "wrote at 0, duplicate: true"]
    assert [line.split(": ")[1] for line in lines[2:4]] == [
        "TRANSACTION_OUTCOME_ABORTED",
        "TRANSACTION_OUTCOME_COMMITTED",
    ]
    read = [line.removeprefix("read ").partition(": ") for line in lines[4:]]
    expected = ["event 0", "event 1", "right", "right", "right"]
    assert [value for _, _, value in read] == expected
    assert {place.partition("/")[0] for place, _, _ in read} == {"0", "1", "2"}
    assert sorted(values(cluster, topic)) == sorted(value.encode() for value in expected)
    assert values(cluster, topic, "read_uncommitted").count(b"wrong") == 3


def test_the_sketch_in_the_documentation_runs(cluster: LocalCluster, tmp_path: Path) -> None:
    folder, command = node(tmp_path)
    page = (ROOT / "docs" / "other-languages.md").read_text()
    (sketch,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    (folder / "main.js").write_text(sketch)
    (folder / "protos").symlink_to(tmp_path / "protos")
    done = subprocess.run(
        [*command, cluster.bootstrap_servers.split(",")[0]],
        cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[ 'hello' ]\n"), done.stderr[-3000:]


def test_no_lock_file_names_a_place_to_load_from() -> None:
    """What is loaded from where is the machine's affair; what is loaded is pinned, with its hash."""
    lock = (ROOT / "examples" / "node" / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    packages = re.findall(r'"node_modules/[^"]+": \{(.*?)\n    \}', lock, re.DOTALL)
    assert len(packages) > 20
    assert all('"integrity": "sha512-' in package for package in packages)
    assert "replace " not in (ROOT / "examples" / "go" / "go.mod").read_text()
