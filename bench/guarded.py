"""The two clusters that `bench.security` compares: TLS alone, and everything of security on top of it.

On: certificates between services with rules for each of them, access rules, tokens that name the client, session tokens, and
quotas. The client has a role and quotas of its own, far above what it does: it is never delayed, and all of it is counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from oncelog.client.admin.quota_admin import Quota
from oncelog.client.admin.security_admin import RoleBinding
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
from tests.certificates import Authority

TLS: Final = "tls"
RULES: Final = "rules"
_ISSUER: Final = "https://bench"
_BENCH: Final = "User:bench"
_SERVICES: Final = {"broker": "partition_leader", "coordinator": "coordinator", "pid-allocator": "pid_allocator"}
_QUOTAS: Final = {
    "produce_bytes_per_s": 100 << 30,
    "fetch_bytes_per_s": 100 << 30,
    "requests_per_s": 10_000_000,
    "requests_in_flight": 100_000,
    "connections": 1_000,
}


@contextmanager
def guarded(folder: Path, mode: str) -> Iterator[tuple[LocalCluster, dict[str, Any]]]:
    """A running cluster, and the options of the client that measures. `mode`: TLS or RULES."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder)
    tls = LocalTls(inside=authority.issue("inside", "127.0.0.1"), clients=authority.issue("clients", "127.0.0.1"))
    if mode == TLS:
        with LocalCluster(folder / "cluster", doors=True, tls=tls) as cluster:
            yield cluster, cluster.client_options
        return
    key = rsa.generate_private_key(65537, 2048)
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    serving = {
        "authorization": "acl",
        "super-users": "User:root",
        "jwt-issuer": _ISSUER,
        "jwt-audience": "oncelog",
        "jwt-jwks": str(folder / "jwks.json"),
    }
    with _with_service_rules(
        LocalCluster(
            folder / "cluster",
            doors=True,
            tls=tls,
            serving_flags=tuple(word for name, value in serving.items() for word in (f"--{name}", value)),
            identity={"token": _token(key, "root")},
        ),
        authority,
    ) as cluster:
        with Client(cluster.bootstrap_servers, **cluster.client_options) as root:
            root.admin.create_acls(bindings=[RoleBinding(_BENCH, "owner")])
            root.admin.set_quotas([Quota(_BENCH, _QUOTAS)])
        yield cluster, {**cluster.client_options, "token": _token(key, "bench")}


def _with_service_rules(cluster: LocalCluster, authority: Authority) -> LocalCluster:
    """Gives each kind of service a certificate of its own, and all of them the rules that know it by that."""
    own = {kind: authority.issue(kind, "127.0.0.1", kind) for kind in _SERVICES}
    rules = "; ".join(f"dns:{kind}=>{service}" for kind, service in _SERVICES.items())
    for name, process in cluster.processes.items():
        kind = name.rpartition("-")[0]
        if kind in own:
            process.command += [f"--tls-cert-file={own[kind].cert}", f"--tls-key-file={own[kind].key}"]
            process.command += ["--service-rules", rules]
    return cluster


def _token(key: Any, name: str) -> str:
    claims = {"iss": _ISSUER, "aud": "oncelog", "sub": name, "exp": int(time.time()) + 24 * 3600}
    return str(jwt.encode(claims, key, algorithm="RS256", headers={"kid": "k"}))
