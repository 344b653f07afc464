"""Certificates at the start of a process: which files serve which listener, and a fault of them named with its setting."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import ConfigError
from oncelog.link.tls_check import PemPaths
from oncelog_runtime.adapters.grpc import tls
from oncelog_runtime.adapters.grpc.tls import ProcessTls, load_tls, server_credentials
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import NodeConfig
from tests.certificates import Authority


def inside(paths: PemPaths, **more: Any) -> NodeConfig:
    files = {"tls_cert_file": paths.cert, "tls_key_file": paths.key, "tls_ca_file": paths.ca}
    return NodeConfig(**{**files, **more})


def shown(paths: PemPaths, **more: Any) -> ServingConfig:
    files = {f"client_tls_{kind}_file": getattr(paths, kind) for kind in ("cert", "key", "ca")}
    return ServingConfig(**{"client_listen_port": 9092, **files, **more})


def complaint(config: NodeConfig) -> str:
    """The sentence about certificates with which a process cannot start."""
    with pytest.raises(ConfigError) as caught:
        load_tls(config)
    return caught.value.message


def test_a_missing_key_is_named_with_the_setting_of_its_door(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1")
    Path(paths.key).unlink()
    assert f"tls_key_file {paths.key} cannot be read: No such file" in complaint(inside(paths))
    assert f"client_tls_key_file {paths.key} cannot be read" in complaint(shown(paths))


def test_a_certificate_of_another_authority_is_named(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1")
    Authority(tmp_path)  # writes another ca.crt
    said = complaint(inside(paths))
    assert f"the certificate in tls_cert_file {paths.cert} is not signed by tls_ca_file {paths.ca}" in said


def test_an_expired_certificate_is_named(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1", expires_in=timedelta(hours=-1))
    said = complaint(inside(paths))
    assert f"the certificate in tls_cert_file {paths.cert}, or its CA, has expired: renew it" in said


def test_a_certificate_without_the_advertised_name_is_named(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1")
    said = complaint(inside(paths, advertised_address="b0.brokers:9093"))
    assert "does not hold the name b0.brokers, under which this process is dialled" in said
    assert load_tls(inside(paths, listen_host="0.0.0.0")).internal, "everywhere is no name"


def test_wrong_files_for_etcd_are_named(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("nothing")
    said = complaint(NodeConfig(etcd_tls_ca_file=str(ca)))
    assert f"etcd_tls_ca_file {ca} is no PEM file of CA certificates" in said


def test_each_door_has_its_own_files_and_without_files_it_is_plaintext(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1")
    assert load_tls(ServingConfig()) == ProcessTls(None, None, None)
    door = load_tls(shown(paths))
    assert (door.internal, door.etcd) == (None, None)
    assert door.clients is not None
    both = load_tls(inside(paths, etcd_tls_ca_file=paths.ca))
    assert both.internal is not None
    assert both.etcd is not None
    assert both.clients is None, "a process that serves no clients has no such door"


def test_what_cannot_be_read_makes_no_credentials(tmp_path: Path) -> None:
    paths = Authority(tmp_path).issue("tls", "127.0.0.1")
    files = load_tls(inside(paths)).internal
    assert files is not None
    assert server_credentials(files, require_certificate=True)
    Path(paths.cert).write_text("nothing")
    with pytest.raises(ConfigError, match="tls_cert_file"):
        load_tls(inside(paths))


class Files:
    """Stands in for `TlsFiles`: the first look fails."""

    def __init__(self) -> None:
        self.looks = 0
        self.loop = asyncio.get_running_loop()
        self.seen = asyncio.Event()

    def look(self) -> None:
        self.looks += 1
        if self.looks == 1:
            raise OSError("no descriptor left")
        self.loop.call_soon_threadsafe(self.seen.set)


def test_the_watch_over_certificates_goes_on_when_a_look_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "_LOOK_S", 0.001)

    async def test() -> None:
        files = Files()
        watching = asyncio.create_task(ProcessTls(clients=files).watch())  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            await files.seen.wait()
        watching.cancel()

    asyncio.run(test())
    assert "looking at the certificates failed" in caplog.text
