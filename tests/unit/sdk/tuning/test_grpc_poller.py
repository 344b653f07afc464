"""gRPC reads its settings when it is imported: they are there then, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.tuning.grpc_poller import EXPERIMENTS, FEWEST_SWITCHES

_GRPC_THAT_SAYS = f"""
import os
print("imported with", os.environ.get("{EXPERIMENTS}"))
"""
_MAIN = f"""
import os
from oncelog.tuning.grpc_poller import import_grpc
{{first}}
import_grpc()
import_grpc()
print("left behind", os.environ.get("{EXPERIMENTS}"))
"""


def _printed(tmp_path: Path, first: str = "", then: str = "", **environment: str) -> list[str]:
    """What a process prints that imports a gRPC which tells of its import, and then does something else."""
    (tmp_path / "grpc.py").write_text(_GRPC_THAT_SAYS + then)
    env = {name: value for name, value in os.environ.items() if name != EXPERIMENTS}
    done = subprocess.run(
        [sys.executable, "-c", _MAIN.format(first=first)],
        env=env | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_poller_is_chosen_for_the_import_and_the_environment_is_as_before(tmp_path: Path) -> None:
    assert _printed(tmp_path) == [f"imported with {FEWEST_SWITCHES}", "left behind None"]


@pytest.mark.parametrize("chosen", ["", "event_engine_client"])
def test_who_has_chosen_is_left_alone(tmp_path: Path, chosen: str) -> None:
    assert _printed(tmp_path, **{EXPERIMENTS: chosen}) == ["left behind " + chosen]


def test_a_grpc_that_was_imported_before_is_not_touched(tmp_path: Path) -> None:
    assert _printed(tmp_path, "import grpc") == ["imported with None", "left behind None"]


@pytest.mark.parametrize(
    "first",
    [
        "from oncelog.client.defaults import LazyGrpcTransport; LazyGrpcTransport('test')._make()",
        "from oncelog_partition_leader.__main__ import main; import sys; sys.argv[1:] = ['--data-dir=/dev/null']; main()",
    ],
    ids=["client", "service"],
)
def test_clients_and_services_import_it_so(tmp_path: Path, first: str) -> None:
    found = _printed(tmp_path, first, then="raise SystemExit(0)")
    assert [line for line in found if not line.startswith("{")] == [f"imported with {FEWEST_SWITCHES}"]
