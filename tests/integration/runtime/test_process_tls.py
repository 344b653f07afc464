"""Certificates at the start of a process: what cannot work is one sentence and exit code 1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.link.tls_check import PemPaths
from tests.certificates import Authority

TOY = Path(__file__).with_name("toy_service.py")


def flags(paths: PemPaths) -> list[str]:
    return [f"--tls-{kind}-file={getattr(paths, kind)}" for kind in ("cert", "key", "ca")]


def complaint(*words: str) -> str:
    """The one line that a start which cannot work leaves."""
    command = [sys.executable, str(TOY), "--etcd-connect-timeout-ms=0", "--etcd-endpoints=127.0.0.1:1", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1, done.stderr
    said = [text for text in done.stderr.splitlines() if not text.startswith("{")]
    assert len(said) == 1
    assert said[0].startswith("oncelog toy: ")
    return said[0]


def test_a_missing_file_is_named_with_its_setting(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1")
    Path(paths.key).unlink()
    assert f"tls_key_file {paths.key} cannot be read: No such file" in complaint(*flags(paths))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--tls-cert-file=x", "tls_key_file must be given together with tls_cert_file"),
        ("--etcd-tls-key-file=x", "etcd_tls_cert_file must be given together with etcd_tls_key_file"),
    ],
)
def test_half_a_set_of_files_is_refused(given: str, says: str) -> None:
    assert says in complaint(given)
