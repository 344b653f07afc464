"""The cluster with security on: certificates for each service, access rules, and service accounts as the only clients.

Rule 1: nothing of the cluster is needed but what every Kubernetes has: certificates are made here and put into secrets, keys
        of its tokens are read with kubectl, so that pods need not reach the API server.
Rule 2: the load is somebody: a super user by its service account. Everybody else, the suite too, is a stranger.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.certificates import Authority
from tests.e2e.kubernetes.cluster import Cluster

ACCOUNT: Final = "load"
AUDIENCE: Final = "oncelog"
CLIENT_SECRET: Final = "oncelog-clients"
_KEYS: Final = "token-keys"
_COMPONENTS: Final = {
    "partitionLeader": "partition-leader",
    "coordinator": "coordinator",
    "pidAllocator": "pid-allocator",
    "etcd": "etcd",
}
_MEMBERS_MAX: Final = 5


def prepare(cluster: Cluster, folder: Path) -> Path:
    """Makes secrets, keys and the account in the namespace; returns a file of values for the chart."""
    folder.mkdir(parents=True, exist_ok=True)
    issuer = json.loads(cluster.kubectl("get", "--raw", "/.well-known/openid-configuration", namespaced=False))[
        "issuer"
    ]
    keys = cluster.kubectl("get", "--raw", "/openid/v1/jwks", namespaced=False).decode()
    cluster.apply(*manifests(cluster.release, cluster.namespace, keys, folder))
    values = folder / "secure-values.yaml"
    values.write_text(json.dumps(chart_values(cluster.namespace, issuer)), encoding="utf-8")
    return values


def manifests(release: str, namespace: str, keys: str, folder: Path) -> list[dict[str, Any]]:
    """Secrets with certificates, the keys of tokens, and the account of the load."""
    inside, clients = Authority(folder, "inside-ca"), Authority(folder, "clients-ca")
    made = [_secret(f"inside-{name}", inside, names(release, namespace, name)) for name in _COMPONENTS.values()]
    made.append(_secret(CLIENT_SECRET, clients, client_names(release, namespace)))
    made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _KEYS}, "data": {"jwks.json": keys}})
    made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    return made


def names(release: str, namespace: str, component: str) -> list[str]:
    """What the certificate of a service must hold, as the chart's README says."""
    own = f"{release}-{component}"
    headless = f"{own}-headless.{namespace}.svc.cluster.local"
    found = [headless, f"*.{headless}", f"{own}.{namespace}.svc.cluster.local"]
    if component == "etcd":
        found += [f"{own}-{number}.{headless}" for number in range(_MEMBERS_MAX)]
    return found


def client_names(release: str, namespace: str) -> list[str]:
    """What the certificate of the client listeners must hold."""
    bootstrap = [release, f"{release}.{namespace}", f"{release}.{namespace}.svc.cluster.local"]
    pods = [
        f"*.{release}-{name}-headless.{namespace}.svc.cluster.local" for name in ("partition-leader", "coordinator")
    ]
    return bootstrap + pods


def chart_values(namespace: str, issuer: str) -> dict[str, Any]:
    """Everything on: TLS at all listeners, a certificate for each service, access rules, tokens of service accounts."""
    return {
        "tls": {
            "internal": {
                "enabled": True,
                "existingSecrets": {key: f"inside-{name}" for key, name in _COMPONENTS.items()},
            },
            "client": {"enabled": True, "existingSecret": CLIENT_SECRET},
        },
        "auth": {
            "authorization": "acl",
            "superUsers": [f"User:system:serviceaccount:{namespace}:{ACCOUNT}"],
            "kubernetes": {"enabled": True, "issuer": issuer, "audience": AUDIENCE},
            "jwt": {"jwks": {"existingConfigMap": _KEYS}},
            "acls": [{"principals": ["User:nobody"], "role": "reader", "onPrefix": "e2e-"}],
        },
    }


def pod_parts() -> dict[str, Any]:
    """What a pod needs to be a client: environment, mounts, volumes, account."""
    token = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 600}}
    ca = {"secret": {"name": CLIENT_SECRET, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    return {
        "env": [
            {"name": "ONCELOG_SECURITY_PROTOCOL", "value": "SSL"},
            {"name": "ONCELOG_SSL_CAFILE", "value": "/identity/ca.crt"},
            {"name": "ONCELOG_TOKEN_FILE", "value": "/identity/token"},
        ],
        "mounts": [{"name": "identity", "mountPath": "/identity", "readOnly": True}],
        "volumes": [{"name": "identity", "projected": {"defaultMode": 0o444, "sources": [token, ca]}}],
        "account": ACCOUNT,
    }


def _secret(name: str, authority: Authority, held: Iterable[str]) -> dict[str, Any]:
    paths = authority.issue(name, *held)
    files = {"tls.crt": paths.cert, "tls.key": paths.key, "ca.crt": paths.ca}
    data = {key: base64.b64encode(Path(path).read_bytes()).decode() for key, path in files.items()}
    for path in (paths.cert, paths.key):
        Path(path).unlink()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": data}
