"""Certificates on their way: good files are one object, renewals are taken, and bad ones are not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from oncelog.link.tls_check import PemPaths, Use
from oncelog.link.tls_files import TlsFiles
from tests.certificates import HOUR, Authority
from tests.unit.sdk.link.spoiled import FAULTS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def paths(authority: Authority) -> PemPaths:
    return authority.issue("node", "node.example", "127.0.0.1")


def test_good_files_are_one_object_until_they_change(paths: PemPaths, authority: Authority) -> None:
    files = TlsFiles(paths, Use.PEER, hosts=("node.example", "127.0.0.1"))
    first = files.current()
    assert files.current() is first
    authority.issue("node", "node.example", "127.0.0.1")
    second = files.current()
    assert second != first
    assert files.current() is second


def test_a_name_that_only_clients_miss_is_logged(paths: PemPaths, caplog: pytest.LogCaptureFixture) -> None:
    TlsFiles(paths, Use.SERVER, wanted_hosts=("node.example", "outside.example")).current()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "does not hold the name outside.example" in caplog.text


# ---------------------------------------------------------------- renewals


@pytest.mark.parametrize(("spoil", "says"), FAULTS)
def test_a_bad_renewal_keeps_the_old_files_and_says_so_once(
    spoil: Callable[[PemPaths, Authority], None],
    says: str,
    paths: PemPaths,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = TlsFiles(paths, Use.PEER)
    good = files.current()
    spoil(paths, authority)
    for _ in range(3):
        assert files.current() is good
        files.look()
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "the old ones stay" in errors[0].getMessage()


def test_half_a_renewal_waits_for_its_other_half(paths: PemPaths, authority: Authority) -> None:
    files = TlsFiles(paths, Use.PEER)
    good = files.current()
    cert, key = authority.pem("node.example")
    Path(paths.cert).write_bytes(cert)
    assert files.current() is good
    Path(paths.key).write_bytes(key)
    assert files.current().cert == cert


def test_a_folder_swapped_by_a_link_is_a_renewal(tmp_path: Path) -> None:
    """As Kubernetes mounts a secret: names are links into `..data`, which is a link to a dated folder."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
        Authority(folder).issue("tls", "node.example")
    data = tmp_path / "..data"
    data.symlink_to("first")
    paths = PemPaths(str(data / "tls.crt"), str(data / "tls.key"), str(data / "ca.crt"))
    files = TlsFiles(paths, Use.PEER)
    first = files.current()
    swap = tmp_path / "..data_tmp"
    swap.symlink_to("second")
    swap.rename(data)
    assert files.current() != first
    assert files.current().cert == (folders[1] / "tls.crt").read_bytes()


@pytest.mark.parametrize(
    ("expires_in", "level", "says"),
    [(timedelta(minutes=5), "WARNING", "expires soon"), (timedelta(seconds=-1), "ERROR", "has expired")],
)
def test_a_renewal_that_is_overdue_is_complained_about_once_an_hour(
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    expires_in: timedelta,
    level: str,
    says: str,
) -> None:
    now = [0.0]
    paths = authority.issue("node", "node.example", expires_in=HOUR)
    files = TlsFiles(paths, Use.PEER)
    files.current()
    expiry_s = files.validity.to_s
    now[0] = expiry_s - expires_in.total_seconds()
    monkeypatch.setattr("oncelog.link.tls_files.time.time", lambda: now[0])
    for _ in range(3):
        files.look()
    complaints = [record for record in caplog.records if says in record.getMessage()]
    assert [record.levelname for record in complaints] == [level]
    now[0] += 3601
    files.look()
    assert len([r for r in caplog.records if "expire" in r.getMessage()]) == 2


def test_peace_is_quiet(paths: PemPaths, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    files = TlsFiles(paths, Use.PEER)
    files.look()
    files.look()
    assert caplog.records == []
