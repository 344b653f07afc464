"""Access rules on a whole cluster of real processes: tokens, users with passwords, rules, the command line, the audit log."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from oncelog import errors
from oncelog.client.admin.admin import RoleBinding
from oncelog.link.credentials import Credentials
from oncelog.link.grpc_tls import ClientTls
from oncelog.link.grpc_transport import GrpcTransport
from oncelog.link.tls_check import PemPaths
from oncelog.link.tls_files import TlsFiles
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
from tests.certificates import Authority
from tests.simulation.test_access_matrix import GROUP, TOPIC, TXN, World

jwt = pytest.importorskip("jwt")

KEY = rsa.generate_private_key(65537, 2048)


def token(sub: str, lives_s: int = 3600) -> str:
    claims = {"iss": "https://issuer", "aud": "oncelog", "sub": sub, "exp": int(time.time()) + lives_s}
    made: str = jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k1"})
    return made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "k1"}]}))
    flags = {
        "authorization": "acl",
        "super-users": "User:root",
        "jwt-issuer": "https://issuer",
        "jwt-audience": "oncelog",
        "jwt-jwks": str(folder / "jwks.json"),
    }
    cluster = LocalCluster(
        folder / "cluster",
        brokers=1,
        coordinators=1,
        doors=True,
        tls=LocalTls(inside=authority.issue("inside", "127.0.0.1"), clients=authority.issue("clients", "127.0.0.1")),
        serving_flags=tuple(word for name, value in flags.items() for word in (f"--{name}", value)),
        identity={"token": token("root")},
    )
    with cluster as running:
        yield running


def client(cluster: LocalCluster, **identity: Any) -> Client:
    tls = {name: value for name, value in cluster.client_options.items() if name != "token"}
    return Client(cluster.bootstrap_servers, default_api_timeout_ms=30_000, **tls, **identity)


def oncelog(
    cluster: LocalCluster, *words: str, given: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command line, as root unless the environment says somebody else."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}
    own = {
        "ONCELOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ONCELOG_SSL_CAFILE": str(cluster.client_options["ssl_cafile"]),
        "ONCELOG_TOKEN": str(cluster.identity["token"]),
    }
    return subprocess.run(
        [sys.executable, "-m", "oncelog_cli", *words],
        env={**inherited, **own, **environment},
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_user_may_what_the_rules_allow_and_nobody_else_learns_of_it(guarded: LocalCluster, tmp_path: Path) -> None:
    with client(guarded, **guarded.identity) as root:
        root.admin.create_topic("shop.orders", partitions=2, replication_factor=1)
    done = oncelog(guarded, "user", "add", "ann", "--new-password-file", "-", given="pencil of ann\n")
    assert done.returncode == 0, done.stderr
    added = oncelog(guarded, "acl", "add", "--principal", "User:ann", "--role", "owner", "--on-prefix", "shop.")
    assert added.returncode == 0, added.stderr

    with client(guarded, username="ann", password="pencil of ann") as ann:
        with ann.producer(transactional_id="shop.t") as producer, producer.transaction() as transaction:
            transaction.send("shop.orders", value=b"one", key=b"k")
        with ann.consumer("shop.orders", group_id="shop.g", auto_offset_reset="earliest") as consumer:
            record = consumer.getone(20_000)
            assert record is not None
            assert record.value == b"one"
        assert [topic.name for topic in ann.admin.list_topics()] == ["shop.orders"]
        with pytest.raises(errors.TopicAuthorizationError):
            ann.admin.create_topic("other", partitions=1, replication_factor=1)

    for stranger in ({}, {"token_provider": lambda: token("bob")}):
        with client(guarded, **stranger) as nobody:
            assert nobody.admin.list_topics() == []
            refusals = (errors.TopicAuthorizationError, errors.ClusterAuthorizationError)
            with pytest.raises(refusals), nobody.producer() as producer:
                producer.send_and_wait("shop.orders", value=b"two")
    with pytest.raises(errors.OncelogError) as caught, client(guarded, username="ann", password="wrong") as false:
        false.admin.list_topics()
    assert "user or password is wrong" in str(caught.value)
    _look_at_the_command_line(guarded, tmp_path)
    _look_at_the_logs(guarded)


def _look_at_the_command_line(cluster: LocalCluster, tmp_path: Path) -> None:
    rules = json.loads(oncelog(cluster, "acl", "list", "--format", "json").stdout)
    assert rules["bindings"] == [
        {"principal": "User:ann", "role": "owner", "resource_name": "shop.", "pattern_type": "PREFIXED"}
    ]
    checked = oncelog(
        cluster, "acl", "check", "WRITE", "--topic", "shop.x", "--principal", "User:ann", "--format", "json"
    )
    assert json.loads(checked.stdout)["allowed"] is True
    (tmp_path / "password").write_text("pencil of ann\n")
    as_ann = {"ONCELOG_TOKEN": "", "ONCELOG_USERNAME": "ann", "ONCELOG_PASSWORD_FILE": str(tmp_path / "password")}
    refused = oncelog(cluster, "acl", "list", **as_ann)
    assert refused.returncode == 1
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.stderr
    listed = oncelog(cluster, "topic", "list", "--format", "json", **as_ann)
    assert "shop.orders" in listed.stdout, listed.stderr


def _look_at_the_logs(cluster: LocalCluster) -> None:
    log = "".join(cluster.processes[name].log_path.read_text() for name in ("broker-0", "coordinator-0"))
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    audit = [line for line in lines if line["logger"] == "oncelog.audit"]
    assert any(line["result"] == "DENIED" and line.get("principal") == "User:bob" for line in audit)
    assert any(line["result"] == "ALLOWED" and line["method"] == "Security.CreateAcls" for line in audit)
    assert any(line.get("operation") == "AUTHENTICATE" for line in audit)
    assert "pencil" not in log
    assert str(cluster.identity["token"]) not in log


@pytest.mark.parametrize("door", ["client", "external"])
@pytest.mark.parametrize("who", ["", "tenant"], ids=["nobody", "a tenant"])
def test_a_tenant_learns_nothing_of_anothers_things_over_tls(guarded: LocalCluster, door: str, who: str) -> None:
    """Every method that a client may name: what exists and is not mine is answered, byte for byte, like what does not exist."""
    topic_id = _prepare_things(guarded)
    found, missing = (topic_id, TOPIC, GROUP, TXN), ("f" * 32, "shop.nothin", "shop.nothing", "shop.absent")
    told = SimpleNamespace(of_session=lambda *_: b"t" * 16, of_producer=lambda *_: b"t" * 16)
    mine = World.requests(cast("Any", SimpleNamespace(topic_id=topic_id, tokens=lambda: told, txn_producer_id=1)))

    async def main() -> list[str]:
        paths = PemPaths("", "", str(guarded.client_options["ssl_cafile"]))
        shown = Credentials(token=token(who)) if who else None
        transport = GrpcTransport(tls=ClientTls(TlsFiles(paths)), credentials=shown)
        try:
            return [
                spec.name
                for spec, request, payload in mine
                if not await _alike(
                    transport, _address(guarded, spec.service, door), spec, request, payload, found, missing
                )
            ]
        finally:
            await transport.close()

    assert asyncio.run(main()) == []


def _prepare_things(cluster: LocalCluster) -> str:
    """A topic with a record, a group with an offset and a transactional id, once; returns the topic's id."""
    with client(cluster, **cluster.identity) as root:
        root.admin.create_topic(TOPIC, partitions=1, replication_factor=1, if_not_exists=True)
        with root.producer(transactional_id=TXN) as producer, producer.transaction() as transaction:
            transaction.send(TOPIC, value=b"secret")
        root.admin.set_group_offsets(GROUP, {(TOPIC, 0): 1})
        root.admin.create_acls(bindings=[RoleBinding("User:tenant", "owner", "other.", "PREFIXED")])
        return root.admin.describe_topic(TOPIC).topic_id


def _address(cluster: LocalCluster, service: str, door: str) -> str:
    name = "coordinator-0" if service == "Coordinator" else "broker-0"
    return cluster.processes[name].doors[door]


async def _alike(
    transport: GrpcTransport,
    address: str,
    spec: Any,
    request: Any,
    payload: bytes,
    found: tuple[str, ...],
    missing: tuple[str, ...],
) -> bool:
    """The cluster lives meanwhile (revisions move), so it has three tries to answer alike."""
    asked = request.SerializeToString()
    other = asked
    for real, false in zip(found, missing, strict=True):
        assert len(real) == len(false)
        other = other.replace(real.encode(), false.encode())
    for _ in range(3):
        one, two = [
            _plain(await _answer(transport, address, spec, data, payload), (*found, *missing))
            for data in (asked, other)
        ]
        assert b"secret" not in one
        if one == two:
            return True
    return False


async def _answer(transport: GrpcTransport, address: str, spec: Any, data: bytes, payload: bytes) -> bytes:
    try:
        header, bulk = await transport.call(address, spec.name, data, payload, 20_000)
        return header + b"/" + bytes(bulk)
    except errors.OncelogError as error:
        return f"{type(error).__name__} {error}".encode()


def _plain(answer: bytes, names: tuple[str, ...]) -> bytes:
    for name in sorted(names, key=len, reverse=True):
        answer = answer.replace(name.encode(), b"?")
    return answer
