"""gRPC reads its settings when it is imported: they are there then, gone afterwards, and known to the gRPC that is locked."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from oncelog_runtime.adapters import grpc_poller
from oncelog_runtime.adapters.grpc_poller import BACKUP_POLL, EXPERIMENTS, KNOWN_IN, SETTINGS, import_grpc

_GRPC_THAT_SAYS = f"""
import os
print("imported with", os.environ.get("{EXPERIMENTS}"), os.environ.get("{BACKUP_POLL}"))
"""
_MAIN = f"""
import os
from oncelog_runtime.adapters.grpc_poller import import_grpc
{{first}}
import_grpc()
import_grpc()
print("left behind", os.environ.get("{EXPERIMENTS}"), os.environ.get("{BACKUP_POLL}"))
"""
_IMPORTED = f"imported with {SETTINGS[EXPERIMENTS]} {SETTINGS[BACKUP_POLL]}"


def _run(code: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    paths = [str(path), *sys.path] if path is not None else sys.path
    return subprocess.run(
        [sys.executable, "-c", code],
        env=env | {"PYTHONPATH": os.pathsep.join(paths)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def _printed(tmp_path: Path, first: str = "", then: str = "", **environment: str) -> list[str]:
    """What a process prints that imports a gRPC which tells of its import, and then does something else."""
    (tmp_path / "grpc.py").write_text(_GRPC_THAT_SAYS + then)
    return _run(_MAIN.format(first=first), tmp_path, **environment).stdout.splitlines()


def test_the_poller_is_chosen_for_the_import_and_the_environment_is_as_before(tmp_path: Path) -> None:
    assert _printed(tmp_path) == [_IMPORTED, "left behind None None"]


@pytest.mark.parametrize("chosen", ["", "event_engine_client"])
def test_who_has_chosen_is_left_alone(tmp_path: Path, chosen: str) -> None:
    assert _printed(tmp_path, **{EXPERIMENTS: chosen}) == [f"left behind {chosen} None"]


def test_another_interval_of_the_back_up_poller_is_left_alone(tmp_path: Path) -> None:
    found = _printed(tmp_path, **{BACKUP_POLL: "30"})
    assert found == [f"imported with {SETTINGS[EXPERIMENTS]} 30", "left behind None 30"]


def test_a_grpc_that_was_imported_before_is_not_touched(tmp_path: Path) -> None:
    assert _printed(tmp_path, "import grpc") == ["imported with None None", "left behind None None"]


def test_a_service_imports_it_so(tmp_path: Path) -> None:
    serve = "from oncelog_partition_leader.__main__ import main; import sys; sys.argv[1:] = ['--data-dir=/dev/null']; main()"
    found = _printed(tmp_path, serve, then="raise SystemExit(0)")
    assert [line for line in found if not line.startswith("{")] == [_IMPORTED]


def test_the_grpc_that_is_locked_knows_the_names() -> None:
    major, minor = version("grpcio").split(".")[:2]
    assert KNOWN_IN[0] <= (int(major), int(minor)) <= KNOWN_IN[1], "look whether it still has this poller"
    assert _run("from oncelog_runtime.adapters.grpc_poller import import_grpc; import_grpc()").stderr == ""


@pytest.mark.parametrize("other", ["1.79.3", "1.86.0", "2.0.0", "unknown"])
def test_no_other_version_is_given_a_name(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: other)
    assert not grpc_poller._is_known()


class Forgetful(dict[str, str]):
    """An environment from which another thread takes away at once what is put in."""

    def update(self, *_: object, **__: object) -> None:
        pass


def test_another_thread_may_import_it_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if name != "grpc"})
    monkeypatch.setattr(os, "environ", Forgetful(os.environ))
    import_grpc()
    assert not SETTINGS.keys() & os.environ.keys()
