"""The examples in other languages do what they say: produce idempotently, a transaction over three partitions, read_committed.

Rule: where a toolchain is absent or its modules cannot be reached, a test is skipped and says so; what else goes wrong fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from oncelog.sync import Client
from oncelog.v1 import errors_pb2
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.conftest import ROOT
from tests.integration.test_examples import values

BUILD_S = 560
RUN_S = 120
LARGE_BYTES = 900_000
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


def sketch(tmp_path: Path) -> tuple[Path, list[str]]:
    """The one in the documentation."""
    folder, command = node(tmp_path)
    page = (ROOT / "docs" / "other-languages.md").read_text()
    (code,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    (folder / "main.js").write_text(code)
    (folder / "protos").symlink_to(tmp_path / "protos")
    return folder, command


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the program that the parameter builds, with these arguments."""
    folder, command = request.param(tmp_path_factory.mktemp(request.param.__name__))

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [*command, *arguments]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False)

    return start


def of(*languages: Callable[[Path], tuple[Path, list[str]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", languages, ids=lambda language: language.__name__, indirect=True)


@of(go, node)
def test_an_example_does_what_it_says(cluster: LocalCluster, run: Run, new_topic: Callable[..., str]) -> None:
    """Also where an answer is larger than the 4 MiB that gRPC takes unless it is told."""
    topic = new_topic(3)
    large = [letter * LARGE_BYTES for letter in "abcdefgh"]
    with Client(cluster.bootstrap_servers) as client, client.producer(compression_type="zstd") as producer:
        for value in large:
            producer.send(topic, value=value.encode(), partition=1)
        producer.flush()
    done = run(cluster.bootstrap_servers.split(",")[-1], topic)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[:2] == ["wrote at 0, duplicate: false", "wrote at 0, duplicate: true"]
    assert [line.split(": ")[1] for line in lines[2:4]] == [
        "TRANSACTION_OUTCOME_ABORTED",
        "TRANSACTION_OUTCOME_COMMITTED",
    ]
    read = [line.removeprefix("read ").partition(": ") for line in lines[4:]]
    expected = ["event 0", "event 1", "right", *large, "right", "right"]
    assert [value for _, _, value in read] == expected
    assert {place.partition("/")[0] for place, _, _ in read} == {"0", "1", "2"}
    assert sorted(values(cluster, topic)) == sorted(value.encode() for value in expected)
    assert values(cluster, topic, "read_uncommitted").count(b"wrong") == 3


@of(sketch)
def test_the_sketch_in_the_documentation_runs(cluster: LocalCluster, run: Run) -> None:
    done = run(cluster.bootstrap_servers.split(",")[0])
    assert (done.returncode, done.stdout) == (0, "[ 'hello' ]\n"), done.stderr[-3000:]


class Stranger(grpc.GenericRpcHandler):
    """A server that answers each call, whichever it is, with the next of its statuses and then with the last one again."""

    def __init__(self, *statuses: grpc.StatusCode) -> None:
        self._statuses = statuses
        self.calls = 0

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        def refuse(_request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls += 1
            context.abort(self._statuses[min(self.calls, len(self._statuses)) - 1], "so it is")

        return grpc.unary_unary_rpc_method_handler(refuse)


class Signpost(grpc.GenericRpcHandler):
    """Writes its name down and sends every call on, until so many were made of all that share `calls`."""

    def __init__(self, name: str, calls: list[str], most: int) -> None:
        self._name, self._calls, self._most = name, calls, most
        self.go_to = ""

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        def send_on(_request: bytes, context: grpc.ServicerContext) -> bytes:
            self._calls.append(self._name)
            if len(self._calls) < self._most:
                detail = errors_pb2.ErrorDetail(code=errors_pb2.ERROR_CODE_NOT_LEADER_OR_FOLLOWER, go_to=self.go_to)
                context.set_trailing_metadata((("oncelog-error-bin", detail.SerializeToString()),))
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not here")
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "so it is")

        return grpc.unary_unary_rpc_method_handler(send_on)


@contextlib.contextmanager
def served(*handlers: grpc.GenericRpcHandler) -> Iterator[list[str]]:
    """Their addresses, in their order."""
    with ThreadPoolExecutor() as pool, contextlib.ExitStack() as stack:
        addresses = []
        for handler in handlers:
            server = grpc.server(pool, handlers=[handler])
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            server.start()
            stack.callback(server.stop, None)
        yield addresses


@of(go, node, sketch)
def test_a_status_without_a_detail_is_repeated_where_that_can_help(run: Run) -> None:
    code = grpc.StatusCode
    stranger = Stranger(code.UNAVAILABLE, code.DEADLINE_EXCEEDED, code.CANCELLED, code.UNKNOWN, code.RESOURCE_EXHAUSTED)
    with served(stranger) as (address,):
        done = run(address)
    assert stranger.calls == 5
    assert done.returncode != 0
    assert "so it is" in done.stderr


@of(go, node, sketch)
def test_who_is_sent_where_he_was_begins_again_at_the_first_address(run: Run) -> None:
    """The second one names itself: it would be asked without a pause."""
    calls: list[str] = []
    first, second = Signpost("first", calls, 5), Signpost("second", calls, 5)
    with served(first, second) as (address, other):
        first.go_to = second.go_to = other
        done = run(address)
    assert calls == ["first", "second", "first", "second", "first"]
    assert done.returncode != 0


def test_no_lock_file_names_a_place_to_load_from() -> None:
    """What is loaded from where is the machine's affair; what is loaded is pinned, with its hash."""
    lock = (ROOT / "examples" / "node" / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    packages = re.findall(r'"node_modules/[^"]+": \{(.*?)\n    \}', lock, re.DOTALL)
    assert len(packages) > 20
    assert all('"integrity": "sha512-' in package for package in packages)
    assert "replace " not in (ROOT / "examples" / "go" / "go.mod").read_text()
