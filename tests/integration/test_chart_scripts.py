"""The scripts of the chart's jobs on a cluster of real processes with rules, TLS, and tokens as Kubernetes names them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
from tests.certificates import Authority

jwt = pytest.importorskip("jwt")

from tests.integration.test_authorization import KEY, token  # noqa: E402 (it needs jwt)

SCRIPTS = Path(__file__).resolve().parents[2] / "helm" / "oncelog" / "files" / "scripts"
JOBS = "system:serviceaccount:shop:oncelog-jobs"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "k1"}]}))
    flags = {
        "authorization": "acl",
        "super-users": f"User:{JOBS}",
        "jwt-issuer": "https://issuer",
        "jwt-audience": "oncelog",
        "jwt-jwks": str(folder / "jwks.json"),
    }
    tls = LocalTls(inside=authority.issue("inside", "127.0.0.1"), clients=authority.issue("clients", "127.0.0.1"))
    cluster = LocalCluster(
        folder / "cluster",
        brokers=1,
        coordinators=1,
        doors=True,
        tls=tls,
        serving_flags=tuple(word for name, value in flags.items() for word in (f"--{name}", value)),
        identity={"token": token(JOBS)},
    )
    with cluster as running:
        yield running


def run(cluster: LocalCluster, tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A script with the environment that the chart gives its job."""
    (tmp_path / "token").write_text(token(JOBS))
    told = {
        "ONCELOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "ONCELOG_SECURITY_PROTOCOL": "SSL",
        "ONCELOG_SSL_CAFILE": str(cluster.client_options["ssl_cafile"]),
        "ONCELOG_TOKEN_FILE": str(tmp_path / "token"),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}
    name, *arguments = words
    return subprocess.run(
        [sys.executable, str(SCRIPTS / name), *arguments],
        env={**inherited, **told, **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_helm_test_passes_and_sees_a_stranger_refused(guarded: LocalCluster, tmp_path: Path) -> None:
    done = run(guarded, tmp_path, "check_transactions.py", CHECK_STRANGER="1")
    assert done.returncode == 0, done.stderr
    assert "a stranger is refused: CLUSTER_AUTHORIZATION_FAILED" in done.stdout
    assert "60 records read with read_committed" in done.stdout


def test_helm_test_fails_as_somebody_without_rules(guarded: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(token("system:serviceaccount:shop:web"))
    done = run(guarded, tmp_path, "check_transactions.py", ONCELOG_TOKEN_FILE=str(tmp_path / "other"))
    assert done.returncode == 1
    assert "User:system:serviceaccount:shop:web may not CREATE on topic" in done.stderr


def test_topics_are_made_by_the_jobs_token(guarded: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text(json.dumps([{"name": "declared", "partitions": 2, "replicationFactor": 1}]))
    done = run(guarded, tmp_path, "create_topics.py", str(tmp_path / "topics.json"), "--timeout", "60")
    assert done.returncode == 0, done.stderr


def test_users_and_rules_are_kept_as_declared(guarded: LocalCluster, tmp_path: Path) -> None:
    password, declared = tmp_path / "password", tmp_path / "access.json"
    password.write_text("pencil of ann\n")
    declared.write_text(
        json.dumps(
            {
                "users": [{"name": "ann", "passwordFile": str(password)}],
                "roles": [{"name": "maker", "rules": [{"resourceType": "TOPIC", "operations": ["CREATE", "DELETE"]}]}],
                "acls": [
                    {"principals": ["User:ann"], "role": "maker", "onPrefix": "shop."},
                    {"principals": ["User:ann"], "operations": ["WRITE"], "topics": ["a"], "groups": ["g"]},
                ],
                "removeUndeclared": True,
            }
        )
    )
    refused = run(guarded, tmp_path, "keep_access.py", str(declared), "--timeout", "60")
    assert refused.returncode == 1  # WRITE is no operation of groups: said, and not tried for a minute
    assert "INVALID_REQUEST" in refused.stderr
    changed = json.loads(declared.read_text())
    del changed["acls"][1]["groups"]
    declared.write_text(json.dumps(changed))

    first = run(guarded, tmp_path, "keep_access.py", str(declared), "--timeout", "60")
    assert first.returncode == 0, first.stderr
    assert "user ann added" in first.stdout
    assert "added: User:ann is maker on shop.*" in first.stdout
    again = run(guarded, tmp_path, "keep_access.py", str(declared), "--timeout", "60")
    assert "2 rules and 1 roles were there already" in again.stdout, again.stderr
    assert "user ann was there already, with this password" in again.stdout
    password.write_text("pen of ann\n")
    other = run(guarded, tmp_path, "keep_access.py", str(declared), "--timeout", "60")
    assert "user ann has another password" in other.stdout, other.stderr
    assert not any(secret in done.stdout + done.stderr for done in (first, other) for secret in ("pencil", "pen of"))

    tls = {name: value for name, value in guarded.client_options.items() if name != "token"}
    with Client(guarded.bootstrap_servers, username="ann", password="pen of ann", **tls) as ann:
        ann.admin.create_topic("shop.made", partitions=1, replication_factor=1)
