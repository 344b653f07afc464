"""What nobody may read: tokens, passwords, session tokens' key, after a cluster was used with all of them.

Looked at: logs of every process at DEBUG, texts of errors, metrics, the debug bundle, arguments of all processes, files' modes.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import urllib.request
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog import errors
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests.integration.test_hostile_inputs import Guarded, make_token

PASSWORD = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = Guarded(tmp_path_factory.mktemp("secrets"), flags=("--log-level", "DEBUG"), metrics=True)
    with made.cluster as running:
        yield running


def forms(secret: bytes) -> list[bytes]:
    """As it may stand somewhere."""
    texts = [secret.hex().encode(), b64encode(secret).rstrip(b"="), urlsafe_b64encode(secret).rstrip(b"=")]
    return [secret, *texts, repr(secret)[2:-1].encode(), ascii(secret.decode("latin-1"))[1:-1].encode()]


def client(cluster: LocalCluster, **identity: str) -> Client:
    tls = {name: value for name, value in cluster.client_options.items() if name != "token"}
    return Client(cluster.bootstrap_servers, default_api_timeout_ms=60_000, **tls, **identity)


def use(cluster: LocalCluster) -> tuple[list[bytes], list[str]]:
    """Everything that has a secret in it, done well and done wrong: the secrets, and what errors said."""
    token, said = str(cluster.identity["token"]), []
    secrets = [token.encode(), PASSWORD.encode()]
    with client(cluster, token=token) as root:
        root.admin.create_topic("kept", partitions=1, replication_factor=1)
        root.admin.create_user("ann", PASSWORD)
        with root.producer(transactional_id="t") as producer, producer.transaction() as transaction:
            transaction.send("kept", value=b"one")
        with root.producer() as producer:
            producer.send_and_wait("kept", value=b"two")
        said.append(repr(root))
    wrong = make_token("root", aud="other")
    secrets.append(wrong.encode())
    for identity in (
        {"username": "ann", "password": PASSWORD},
        {"username": "ann", "password": f"{PASSWORD}s"},
        {"token": wrong},
        {"token": make_token("nobody")},
    ):
        try:
            with client(cluster, **identity) as somebody:
                said.append(repr(somebody) + repr(somebody.admin.list_topics()))
                somebody.admin.create_topic("not his", partitions=1)
        except errors.OncelogError as error:
            said.append(f"{error!r} {error} {error.context}")
        if "token" in identity:
            secrets.append(identity["token"].encode())
    return secrets, said


def kept_in_etcd(cluster: LocalCluster) -> list[bytes]:
    """The cluster's own secrets: the key of session tokens, and what is stored of passwords."""
    found = b""
    for path in sorted((cluster.data_dir / "etcd").rglob("*")):
        if path.is_file():
            found += path.read_bytes()
    names = (b'"key":"', b'"key": "', b'"stored_key":"', b'"server_key":"')
    secrets = [piece.split(b'"')[0] for name in names for piece in found.split(name)[1:]]
    return [secret for secret in secrets if len(secret) >= 32]


def test_nobody_can_read_a_secret_anywhere(talkative: LocalCluster, tmp_path: Path) -> None:
    cluster = talkative
    secrets, said = use(cluster)
    own = kept_in_etcd(cluster)
    assert len(own) >= 3, "the session key and ann's two keys"
    wanted = [form for secret in secrets for form in forms(secret)] + own
    places = {f"log of {name}": process.log_path.read_bytes() for name, process in cluster.processes.items()}
    assert any(b"DEBUG" in text for text in places.values())
    places["errors and reprs"] = "\n".join(said).encode()
    for name, process in cluster.processes.items():
        if process.metrics_url:
            places[f"metrics of {name}"] = urllib.request.urlopen(process.metrics_url, timeout=20).read()
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            places[str(arguments)] = arguments.read_bytes()
        except OSError:
            continue
    places |= bundle(cluster, tmp_path)
    for where, text in places.items():
        for secret in wanted:
            assert secret not in text, f"a secret stands in {where}"
    loose = [path for path in [cluster.data_dir, *cluster.data_dir.rglob("*")] if path.lstat().st_mode & 0o077]
    assert not loose, "everything in the data directory is its owner's alone, etcd's part too"


def bundle(cluster: LocalCluster, folder: Path) -> dict[str, bytes]:
    """What `oncelog debug bundle` takes along, with secrets in the environment and in a profile."""
    config = folder / "config" / "oncelog"
    config.mkdir(parents=True)
    profile = {"token": str(cluster.identity["token"]), "password": PASSWORD}
    (config / "profiles.json").write_text(json.dumps({"version": 1, "current": "", "profiles": {"p": profile}}))
    environment = {
        "ONCELOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ONCELOG_SSL_CAFILE": str(cluster.client_options["ssl_cafile"]),
        "ONCELOG_TOKEN": str(cluster.identity["token"]),
        "ONCELOG_PASSWORD": PASSWORD,
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    path = folder / "bundle.tar.gz"
    logs = str(cluster.data_dir / "logs")
    words = [sys.executable, "-m", "oncelog_cli", "debug", "bundle", "--output", str(path), "--logs", logs]
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {"words of the bundle command": (done.stdout + done.stderr).encode()}
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            found[f"bundle: {member.name}"] = file.read() if file is not None else b""
    return found
