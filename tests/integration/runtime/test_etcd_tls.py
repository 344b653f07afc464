"""etcd behind TLS: mutual, renewed while in use, one of several endpoints at a time, and mistakes that are named."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.errors import MetadataUnavailableError
from oncelog.link.tls_check import PemPaths
from oncelog.link.tls_files import TlsFiles
from oncelog_runtime.adapters.etcd.etcd_process import EtcdProcess, find_etcd
from oncelog_runtime.adapters.etcd.metadata_store import EtcdMetadata
from oncelog_runtime.ports import Change, Listing, Put
from tests.certificates import Authority, trusting_only
from tests.contracts.conftest import RealRunner

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("etcd-tls"))


@pytest.fixture(scope="module")
def etcd(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    try:
        find_etcd()
    except MetadataUnavailableError as error:
        pytest.skip(error.message)
    process = EtcdProcess(
        tmp_path_factory.mktemp("etcd"), fsync=False, tls=authority.issue("etcd", "127.0.0.1", "localhost")
    )
    process.start_blocking()
    yield process
    process.stop_blocking()


def run(endpoint: str, paths: PemPaths | None, *more: str) -> None:
    """Writes, reads and watches one key."""

    async def main() -> None:
        store = EtcdMetadata([*more, endpoint], tls=TlsFiles(paths) if paths is not None else None)
        try:
            await put_and_get(store)
        finally:
            await store.close()

    RealRunner().run(main())


async def put_and_get(store: EtcdMetadata) -> None:
    await store.commit(puts=[Put("/tls/key", b"value")])
    found = await store.get("/tls/key")
    assert found is not None
    assert found.value == b"value"


def test_a_client_with_a_certificate_is_served(etcd: EtcdProcess, authority: Authority) -> None:
    run(etcd.endpoint, authority.issue("client", "oncelog"))


@pytest.mark.parametrize("fault", ["no certificate", "unknown authority", "plaintext"])
def test_who_cannot_be_served_is_told_why(etcd: EtcdProcess, authority: Authority, tmp_path: Path, fault: str) -> None:
    mine = authority.issue("client", "oncelog")
    paths, says = {
        "no certificate": (trusting_only(mine), "ended the TLS handshake: if it wants a client certificate"),
        "unknown authority": (
            dataclasses.replace(mine, ca=str(Authority(tmp_path).ca_path)),
            "the certificate of etcd is not signed by",
        ),
        "plaintext": (None, "if it listens with TLS, set etcd_tls_ca_file"),
    }[fault]
    with pytest.raises(MetadataUnavailableError, match=says):
        run(etcd.endpoint, paths)


def test_with_several_endpoints_the_next_one_is_tried(etcd: EtcdProcess, authority: Authority) -> None:
    async def main() -> None:
        store = EtcdMetadata(["localhost:1", etcd.endpoint], tls=TlsFiles(authority.issue("client", "oncelog")))
        try:
            with pytest.raises(MetadataUnavailableError):
                await put_and_get(store)
            await put_and_get(store)
        finally:
            await store.close()

    RealRunner().run(main())


def test_a_lease_that_is_gone_is_an_answer_and_moves_nobody(etcd: EtcdProcess, authority: Authority) -> None:
    async def main() -> None:
        files = TlsFiles(authority.issue("client", "oncelog"))
        store = EtcdMetadata([etcd.endpoint, "localhost:1"], tls=files)
        try:
            await store.revoke_lease(12345)
            await put_and_get(store)
        finally:
            await store.close()

    RealRunner().run(main())


def test_renewed_certificates_are_used_when_etcd_comes_back_with_others(
    authority: Authority, tmp_path: Path, etcd: EtcdProcess
) -> None:
    """A new authority on both sides: the old connection is of no use, and neither are the old files."""
    etcd.stop_blocking()
    server, mine = authority.issue("etcd", "127.0.0.1", "localhost"), authority.issue("client", "oncelog")
    before = authority.ca_path.read_bytes()

    async def main() -> None:
        await etcd.start()
        store = EtcdMetadata([etcd.endpoint], tls=TlsFiles(mine))
        watch = store.watch("/tls/")
        try:
            await put_and_get(store)
            assert isinstance(await anext(watch), Listing)
            await etcd.stop()
            other = Authority(Path(server.ca).parent)  # overwrites ca.crt
            other.issue("etcd", "127.0.0.1", "localhost")
            other.issue("client", "oncelog")
            await etcd.start()
            for _ in range(20):
                try:
                    await put_and_get(store)
                    break
                except MetadataUnavailableError:
                    await asyncio.sleep(0.1)
            await put_and_get(store)
            event = await anext(watch)
            assert isinstance(event, Listing | Change)
        finally:
            await store.close()
            await etcd.stop()

    try:
        RealRunner().run(main())
    finally:
        authority.ca_path.write_bytes(before)
        authority.issue("etcd", "127.0.0.1", "localhost")
        etcd.start_blocking()
