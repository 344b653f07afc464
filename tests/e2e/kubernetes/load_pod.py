"""The load's pod: from the image under test, the load's own few files mounted, the restricted profile kept.

Its files keep their places in the repository, so that the same modules run in the pod, in the suite and in unit tests.
"""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.kubernetes import guard
from tests.e2e.kubernetes.cluster import ROOT, Cluster, CommandFailed
from tests.e2e.kubernetes.recording import Recording, unpack, unpack_records
from tests.simulation.history import Key, Records

POD = "load"
_MODULE = "tests.e2e.kubernetes.load"
_FILES = (
    "tests/e2e/kubernetes/load.py",
    "tests/e2e/kubernetes/recording.py",
    "tests/simulation/history.py",
    "tests/simulation/recorded.py",
)


class LoadPod:
    """One pod that runs the load, and answers questions meanwhile."""

    def __init__(
        self, cluster: Cluster, image: str, pull_policy: str, bootstrap_servers: str, *, secure: bool = False
    ) -> None:
        self._identity = guard.pod_parts() if secure else {}
        self._cluster = cluster
        self._image = image
        self._pull_policy = pull_policy
        self._servers = bootstrap_servers

    def start(self, *arguments: str, timeout_s: float = 60) -> None:
        """Creates the pod and returns when it runs."""
        self._cluster.apply(_files(), self._pod(list(arguments)))
        self._cluster.kubectl("wait", f"pod/{POD}", "--for=condition=Ready", f"--timeout={timeout_s:.0f}s")

    def delete(self) -> None:
        """Removes the pod and its files."""
        self._cluster.kubectl("delete", f"pod/{POD}", f"configmap/{POD}", "--ignore-not-found", "--grace-period=1")

    def ask(self, *arguments: str, timeout_s: float = 60) -> bytes:
        """Runs a verb of the load in the pod."""
        return self.execute("python", "-m", _MODULE, *arguments, timeout_s=timeout_s)

    def execute(self, *command: str, timeout_s: float = 60) -> bytes:
        """Runs a command in the pod."""
        return self._cluster.kubectl("exec", POD, "--", *command, timeout_s=timeout_s)

    def progress(self) -> dict[str, int]:
        """Counts so far; empty before the first. Raises `CommandFailed` when the load has died."""
        try:
            counts: dict[str, int] = json.loads(self.ask("progress"))
        except CommandFailed as error:
            if "FileNotFoundError" in str(error):
                return {}
            raise
        return counts

    def finish(self, timeout_s: float) -> Recording:
        """Stops the load and returns what it recorded."""
        self.ask("stop", "--timeout-s", str(timeout_s), timeout_s=timeout_s + 30)
        return unpack(self.ask("recording", timeout_s=120))

    def read_all(self) -> dict[Key, Records]:
        """What a fresh read_committed client sees of the load's topics."""
        return unpack_records(json.loads(self.ask("read", timeout_s=180)))

    def wait_healthy(self, timeout_s: float) -> None:
        """Returns when every partition has its full ISR and every shard an owner. Raises `CommandFailed`."""
        timeout_ms = str(int(timeout_s * 1000))
        self.execute(
            *("oncelog", "cluster", "health", "--watch", "--exit-when-healthy", "--timeout-ms", timeout_ms),
            timeout_s=timeout_s + 15,
        )

    def _pod(self, arguments: list[str]) -> dict[str, Any]:
        container = {
            "name": POD,
            "image": self._image,
            "imagePullPolicy": self._pull_policy,
            "command": ["python", "-m", _MODULE, *arguments],
            "env": [
                {"name": "PYTHONPATH", "value": "/load"},
                {"name": "ONCELOG_BOOTSTRAP_SERVERS", "value": self._servers},
                *self._identity.get("env", ()),
            ],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "files", "mountPath": "/load"},
                {"name": "tmp", "mountPath": "/tmp"},
                *self._identity.get("mounts", ()),
            ],
        }
        items = [{"key": _key(path), "path": path} for path in _FILES]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 10001,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [
                    {"name": "files", "configMap": {"name": POD, "items": items}},
                    {"name": "tmp", "emptyDir": {}},
                    *self._identity.get("volumes", ()),
                ],
                "serviceAccountName": self._identity.get("account", "default"),
            },
        }


def _key(path: str) -> str:
    return path.replace("/", ".")


def _files() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": POD},
        "data": {_key(path): (ROOT / path).read_text() for path in _FILES},
    }
