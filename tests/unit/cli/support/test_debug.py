"""The debug bundle: secrets stay at home, and a cluster that is down stops nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import tarfile
import time
from pathlib import Path

import pytest

from oncelog_cli.main import main
from oncelog_cli.support.debug_bundle import Bundle, _logs, _metrics
from oncelog_cli.support.masking import MASK, is_secret, masked, masked_text

KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIB\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    ["password", "ssl.key.password", "SASL_JAAS_CONFIG", "client-secret", "ONCELOG_TOKEN", "db_api_key", "accessToken"],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["tokens", "ssl_keyfile", "key", "partition_key", "retention_ms", "passwords_max", "maxTokens"]
)
def test_harmless_names(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2, next",
        "Authorization: Bearer hunter2",
        '{"client_secret": "hunter2"}',
        "etcd://root:hunter2@etcd-0:2379",
        KEY.replace("MHcCAQEEIB", "hunter2"),
        "token eyJhbGciOi.hunter2.sig",
        f"cut off: hunter2\nAAAA{KEY.split('-----', 3)[2]}-----END EC PRIVATE KEY-----",
        '{"clientSecret": "hunter2"}',
        "dbPassword=hunter2",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        f"cut in the middle {KEY.split('-----END', maxsplit=1)[0]}hunter2",
    ],
)
def test_secrets_in_texts(text: str) -> None:
    assert "hunter2" not in masked_text(text)
    assert MASK in masked_text(text)


@pytest.mark.parametrize("word", ["A", "eyJaaaaa-", "-----END PRIVATE KEY-----", "secret", "x://a:", "A+/="])
def test_a_log_of_any_content_is_searched_in_time(word: str) -> None:
    began = time.process_time()
    masked_text(word * (400_000 // len(word)))
    assert time.process_time() - began < 5


def test_values_in_any_nesting() -> None:
    value = {"a": [{"password": "x"}, {"name": "sasl.password", "value": "x"}, ("u:x",)], "tokens": {"app": 3}}
    assert masked(value) == {
        "a": [{"password": MASK}, {"name": "sasl.password", "value": MASK}, ["u:x"]],
        "tokens": {"app": 3},
    }
    assert masked({"password": ""}) == {"password": ""}, "that it is empty is worth knowing"


def test_a_bundle_of_a_cluster_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ONCELOG_SASL_PASSWORD", "hunter2")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "broker-0.log").write_text("started with secret=hunter2\n" + "x" * 100)
    target = tmp_path / "bundle.tar.gz"
    words = ["debug", "bundle", "--bootstrap-servers", nobody, "--timeout-ms", "500", "--output", str(target)]
    assert main([*words, "--logs", str(logs), "--metrics", "ftp://x", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"health", "topics", "metrics/0.txt"} <= set(result["missing"])
    with tarfile.open(target) as archive:
        parts = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    assert {"bundle/versions.json", "bundle/settings.json", "bundle/logs/broker-0.log"} <= set(parts)
    assert "hunter2" not in "".join(parts.values())
    assert "health" in json.loads(parts["bundle/manifest.json"])["missing"]
    assert target.stat().st_mode & 0o077 == 0
    assert main([*words, "--format", "json"]) != 0, "an existing file is not overwritten"


def test_logs_of_one_name_do_not_hide_each_other(tmp_path: Path) -> None:
    bundle = Bundle()
    for node in ("a", "b"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "broker.log").write_text(node)
        _logs(tmp_path / node, 100, bundle)
    assert sorted(bundle.parts.values()) == [b"a", b"b"]


def test_a_page_that_speaks_no_http_is_missing(tmp_path: Path) -> None:
    async def main() -> Bundle:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x00\x00\x12\x04\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        bundle = Bundle()
        await _metrics(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", 0, bundle)
        server.close()
        return bundle

    assert list(asyncio.run(main()).missing) == ["metrics/0.txt"]
