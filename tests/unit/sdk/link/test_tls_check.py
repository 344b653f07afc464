"""Certificate, key and CA are tried in handshakes: every mistake is named with its setting and file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.errors import ConfigError
from oncelog.link.tls_check import PemPaths, Use
from oncelog.link.tls_files import TlsFiles
from tests.certificates import Authority, OneUse, purpose, trusting_only
from tests.unit.sdk.link.spoiled import FAULTS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def paths(authority: Authority) -> PemPaths:
    return authority.issue("node", "node.example", "127.0.0.1")


def test_a_ca_alone_is_enough_to_trust(paths: PemPaths) -> None:
    pem = TlsFiles(trusting_only(paths)).current()
    assert pem.ca.startswith(b"-----BEGIN CERTIFICATE-----")
    assert (pem.cert, pem.key) == (b"", b"")


def test_comments_in_any_language_are_no_fault(paths: PemPaths, authority: Authority) -> None:
    authority.ca_path.write_bytes("# Prüfstelle für alles\n".encode() + authority.ca_path.read_bytes())
    TlsFiles(paths, Use.PEER).current()


def test_a_chain_by_an_intermediate_is_fine(tmp_path: Path) -> None:
    TlsFiles(Authority(tmp_path).child(tmp_path).issue("node", "node.example"), Use.PEER).current()


@pytest.mark.parametrize(
    ("allowed", "fine"),
    [("server", {Use.SERVER}), ("client", {Use.CLIENT}), ("both", set(Use)), ("unsaid", set(Use))],
)
def test_a_certificate_is_held_to_its_purpose(tmp_path: Path, allowed: OneUse, fine: set[Use]) -> None:
    paths = purpose(tmp_path, allowed)
    for use in Use:
        if use in fine:
            TlsFiles(paths, use).current()
        else:
            with pytest.raises(ConfigError, match="lacks an extended key usage: server auth for those who are dialled"):
                TlsFiles(paths, use).current()


def test_a_name_under_which_nobody_could_verify_us_is_refused(paths: PemPaths) -> None:
    for host in ("other.example", "127.0.0.2"):
        with pytest.raises(ConfigError, match=f"does not hold the name {host}"):
            TlsFiles(paths, Use.PEER, hosts=(host,)).current()


def test_settings_are_named_as_the_process_knows_them(paths: PemPaths) -> None:
    own = dataclasses.replace(paths, cert="/nowhere/tls.crt", cert_setting="tls_cert_file")
    with pytest.raises(ConfigError, match=r"^tls_cert_file /nowhere/tls.crt cannot be read"):
        TlsFiles(own).current()


@pytest.mark.parametrize(("spoil", "says"), FAULTS)
def test_what_cannot_work_is_said_at_the_start(
    spoil: Callable[[PemPaths, Authority], None], says: str, paths: PemPaths, authority: Authority
) -> None:
    spoil(paths, authority)
    with pytest.raises(ConfigError, match=says) as caught:
        TlsFiles(paths, Use.PEER).current()
    assert "\n" not in str(caught.value)
