"""Generated gRPC stubs are typed (`stub.Fetch` once was Any, and mypy --strict failed with no-untyped-call)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.wire import methods

ROOT = Path(__file__).parents[4]
STUBS = sorted((ROOT / "sdk" / "oncelog" / "v1").glob("*_pb2_grpc.pyi"))

GOOD = """
from typing import TYPE_CHECKING, cast

import grpc
import grpc.aio

from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import partition_pb2_grpc

if TYPE_CHECKING:
    from oncelog.v1.partition_pb2_grpc import PartitionLeaderAsyncStub


def at_once() -> str:
    stub = partition_pb2_grpc.PartitionLeaderStub(grpc.insecure_channel("a:1"))
    return stub.GetMetadata(pb.GetMetadataRequest(topics=["t"]), timeout=5).cluster_id


async def awaited() -> str:
    stub = cast("PartitionLeaderAsyncStub", partition_pb2_grpc.PartitionLeaderStub(grpc.aio.insecure_channel("a:1")))
    reply = await stub.GetMetadata(pb.GetMetadataRequest(), timeout=5)
    return reply.cluster_id
"""
BAD = """
from oncelog.v1 import partition_pb2 as pb
from oncelog.v1 import partition_pb2_grpc

stub = partition_pb2_grpc.PartitionLeaderStub(None)
stub.GetMetadata(pb.FetchRequest())
stub.GetMetadata(pb.GetMetadataRequest()).cluster
stub.GetMetdata
"""
SAID = {
    6: 'incompatible type "FetchRequest"; expected "GetMetadataRequest"',
    7: '"GetMetadataReply" has no attribute "cluster"',
    8: '"PartitionLeaderStub" has no attribute "GetMetdata"',
}


def test_calls_and_answers_have_their_types(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(GOOD)
    bad.write_text(BAD)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", good, bad],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert not [line for line in found if "good.py" in line], done.stdout
    for number, expected in SAID.items():
        assert any(f"bad.py:{number}: " in line and expected in line for line in found), done.stdout


@pytest.mark.parametrize("kind", ["Stub", "AsyncStub"])
def test_every_method_of_the_contract_is_there(kind: str) -> None:
    typed = set()
    for path in STUBS:
        for item in ast.parse(path.read_text()).body:
            if isinstance(item, ast.ClassDef) and item.name.endswith(kind):
                names = [part.target.id for part in item.body if isinstance(part, ast.AnnAssign)]  # type: ignore[union-attr]
                typed |= {f"{item.name.removesuffix(kind)}.{name}" for name in names}
    assert set(methods.ALL) <= typed
