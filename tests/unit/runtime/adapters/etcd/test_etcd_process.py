"""An etcd of our own: which one is taken, how it is started, and what is said when it does not come up."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog.link.tls_check import PemPaths
from oncelog_runtime.adapters.etcd import etcd_process
from oncelog_runtime.adapters.etcd.etcd_process import EtcdBinary, EtcdProcess, etcd_command, find_etcd


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 4, 30), True),
        ((3, 5, 0), False),
        ((3, 5, 2), False),
        ((3, 5, 3), True),
        ((3, 6, 0), True),
        ((3, 3, 9), False),
    ],
)
def test_versions_that_lose_entries_are_known(version: tuple[int, int, int], safe: bool) -> None:
    assert EtcdBinary(Path("etcd"), version).is_safe is safe


ETCD = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

if sys.argv[1:] == ["--version"]:
    print("etcd Version: {version}")
    sys.exit()
if {words!r}:
    sys.exit({words!r})


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({{"health": {health!r}}}).encode())

    def log_message(self, *_):
        pass


url = next(word for word in sys.argv if word.startswith("--listen-client-urls="))
print("these are its words", flush=True)
HTTPServer(("127.0.0.1", int(url.rpartition(":")[2])), Handler).serve_forever()
"""


def program(path: Path, version: str = "3.5.9", health: str = "true", words: str = "") -> Path:
    """Something that answers as etcd does at its start; with `words` it ends at once with these."""
    path.write_text(ETCD.format(python=sys.executable, version=version, health=health, words=words))
    path.chmod(0o755)
    return path


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def put(*paths: Path) -> None:
        monkeypatch.setattr(etcd_process, "_candidates", lambda: list(paths))

    return put


def test_the_first_safe_etcd_is_taken_else_the_first_of_all(tmp_path: Path, on_path: Callable[..., None]) -> None:
    old, safe = program(tmp_path / "old", "3.5.1"), program(tmp_path / "safe", "3.5.9")
    broken = tmp_path / "broken"
    broken.write_text("no program")
    on_path(broken, tmp_path / "absent", old, safe, program(tmp_path / "later", "3.6.0"))
    assert find_etcd() == EtcdBinary(safe, (3, 5, 9))
    on_path(broken, old)
    assert find_etcd() == EtcdBinary(old, (3, 5, 1))
    on_path(broken)
    with pytest.raises(MetadataUnavailableError, match=r"put one \(3.5.3 or later\) on PATH"):
        find_etcd()


def test_the_etcd_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = program(tmp_path / "etcd")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert etcd_process._candidates()[0] == own


def test_a_poor_version_is_told_and_checked_and_a_good_one_is_not(
    tmp_path: Path, on_path: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    on_path(program(tmp_path / "etcd", "3.5.9"))
    good = etcd_command("data", 2379, 2380)
    assert good[0] == str(tmp_path / "etcd")
    assert {"--listen-client-urls=http://127.0.0.1:2379", "--data-dir=data", "--name=oncelog"} <= set(good)
    assert not [word for word in good if "unsafe" in word or "corrupt" in word or "cert" in word]
    assert caplog.text == ""
    on_path(program(tmp_path / "etcd", "3.5.1"))
    assert "--experimental-initial-corrupt-check" in etcd_command("data", 2379, 2380)
    assert "can lose committed entries" in caplog.text


def test_fsync_is_switched_off_where_the_version_can(tmp_path: Path, on_path: Callable[..., None]) -> None:
    for version, can in (("3.4.30", False), ("3.5.9", True)):
        on_path(program(tmp_path / "etcd", version))
        assert ("--unsafe-no-fsync" in etcd_command("data", 2379, 2380, fsync=False)) is can


def test_with_certificates_clients_are_asked_for_theirs(tmp_path: Path, on_path: Callable[..., None]) -> None:
    on_path(program(tmp_path / "etcd"))
    command = etcd_command("data", 2379, 2380, tls=PemPaths("c.crt", "c.key", "ca.crt"))
    assert "--listen-client-urls=https://127.0.0.1:2379" in command
    assert {"--cert-file=c.crt", "--key-file=c.key", "--trusted-ca-file=ca.crt", "--client-cert-auth=true"} <= set(
        command
    )


def test_it_is_up_when_it_is_healthy_and_comes_back_on_its_port(tmp_path: Path, on_path: Callable[..., None]) -> None:
    on_path(program(tmp_path / "program"))
    etcd = EtcdProcess(tmp_path / "etcd")
    endpoint = etcd.start_blocking()
    assert endpoint == etcd.endpoint
    with pytest.raises(RuntimeError, match="runs already"):
        etcd.start_blocking()
    etcd.kill()
    etcd.kill()
    assert asyncio.run(etcd.start()) == endpoint
    asyncio.run(etcd.stop())
    etcd.stop_blocking()
    assert etcd.log_path.read_text().count("these are its words") == 2
    assert stat.S_IMODE(etcd.log_path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("etcd", "says"),
    [
        ({"words": "the data directory is locked"}, "the data directory is locked"),
        ({"health": "false"}, "did not become healthy; its log ends with"),
    ],
)
def test_one_that_does_not_come_up_is_ended_and_its_last_words_are_told(
    tmp_path: Path, on_path: Callable[..., None], etcd: dict[str, str], says: str
) -> None:
    on_path(program(tmp_path / "program", **etcd))
    process = EtcdProcess(tmp_path / "etcd")
    with pytest.raises(MetadataUnavailableError, match=says):
        process.start_blocking(timeout_ms=10_000 if "words" in etcd else 1_500)
    assert process._process is None
