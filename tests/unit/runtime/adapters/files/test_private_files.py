"""What a process keeps on disk is its owner's alone, whatever its umask, and volumes of Kubernetes go on working."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_cli.laptop.local_cluster import LocalCluster, LocalProcess
from oncelog_cli.terminal.profiles import Profiles
from oncelog_runtime.adapters.files import private_files
from oncelog_runtime.adapters.files.os_disk import OsDisk
from oncelog_runtime.adapters.files.private_files import take_folder


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """As started by somebody who lets everybody write."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(root: Path) -> list[str]:
    return [f"{path} {mode(path):04o}" for path in [root, *root.rglob("*")] if mode(path) & 0o077]


def test_a_broker_makes_folders_and_files_for_itself_alone(tmp_path: Path) -> None:
    async def work(disk: OsDisk) -> None:
        disk.make_dirs("logs/orders-0")
        file = disk.open("logs/orders-0/0.log", create=True)
        file.append([b"x"])
        await file.sync()
        file.close()
        await disk.write_atomic("logs/orders-0/seal.json", b"{}")
        disk.rename("logs/orders-0/seal.json", "logs/orders-0/other.json")

    root = tmp_path / "deep" / "data"
    disk = OsDisk(root)
    asyncio.run(work(disk))
    disk.close()
    assert len(list(root.rglob("*"))) == 5, "the lock too"
    assert open_to_others(tmp_path / "deep") == []


def test_a_directory_that_is_open_to_others_is_closed_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "data"
    root.mkdir(0o755)
    (root / "old.log").touch(0o644)
    with caplog.at_level(logging.INFO):
        OsDisk(root).close()
        OsDisk(root).close()
    assert mode(root) == 0o700
    assert [record.message for record in caplog.records] == ["the data directory was open to others and is closed now"]


def test_a_volume_of_fsgroup_keeps_its_group(tmp_path: Path) -> None:
    root = tmp_path / "volume"
    root.mkdir()
    root.chmod(0o2775)
    OsDisk(root).close()
    assert mode(root) == 0o2770, "the group's rights and the mark stay, else Kubernetes goes through all files again"
    assert mode(root / ".lock") == 0o600


@pytest.mark.parametrize(("given", "level"), [(0o2775, logging.INFO), (0o755, logging.WARNING)])
def test_somebody_elses_directory_is_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: int, level: int
) -> None:
    root = tmp_path / "volume"
    root.mkdir()
    root.chmod(given)

    def not_ours(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", not_ours)
    with caplog.at_level(logging.INFO):
        OsDisk(root).close()
    assert [(record.levelno, "not ours to close" in record.message) for record in caplog.records] == [(level, True)]
    assert mode(root / ".lock") == 0o600


def test_a_local_cluster_keeps_everything_to_itself(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir(0o755)
    cluster = LocalCluster(root, brokers=1, coordinators=0, allocators=0)
    assert mode(root) == 0o700
    assert open_to_others(root) == []
    made = root / "made"
    process = LocalProcess(
        "x", ["/bin/sh", "-c", f"mkdir {made}; touch {made}/file; echo said"], "", root / "logs" / "x.log"
    )
    process.start()
    assert process.popen is not None
    assert process.popen.wait(60) == 0
    assert open_to_others(made) == [], "what a child makes, as etcd does"
    assert mode(process.log_path) == 0o600
    assert cluster.data_dir == root


def test_a_saved_profile_is_for_its_owner_alone(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    (tmp_path / "config").mkdir(0o755)
    Profiles({"prod": {"token": "secret"}}, "prod").write(environment)
    path = Profiles.path(environment)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    path.chmod(0o644)
    Profiles({}, "").write(environment)
    assert mode(path) == 0o600, "also where an older one was open"


def test_a_path_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        take_folder(tmp_path / "file" / "data")
    assert private_files.UMASK == 0o077
