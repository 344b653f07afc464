"""kubectl and helm, as this suite uses them: every command has a time-out, and every failure says what was run.

Rule 1: nothing is assumed of the cluster but a default StorageClass and that it can run the images.
Rule 2: what is missing is named, all of it at once, before anything is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[3]
CHART: Final = ROOT / "helm" / "oncelog"
INSTANCE: Final = "app.kubernetes.io/instance"
COMPONENT: Final = "app.kubernetes.io/component"
_WAITING_FOR_EVER: Final = ("ErrImageNeverPull", "ImagePullBackOff", "ErrImagePull", "InvalidImageName")


class CommandFailed(Exception):
    """A command of the suite ended with an error; the text is the command and what it said."""


class Missing(Exception):
    """What the suite needs and does not find, by name."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as it was seen."""

    name: str
    component: str
    uid: str
    ready: bool
    restarts: int
    waiting: str


class Cluster:
    """One namespace and one Helm release of a cluster that kubectl reaches."""

    def __init__(self, namespace: str, release: str, chart: Path = CHART) -> None:
        self.namespace = namespace
        self.release = release
        self.chart = chart
        self.kubectl_program = os.environ.get("KUBECTL", "kubectl")
        self.helm_program = os.environ.get("HELM", "helm")

    # ------------------------------------------------------------ commands

    def check_there(self) -> None:
        """Raises `Missing` with the name of everything that is not there."""
        missing = [p for p in (self.kubectl_program, self.helm_program) if shutil.which(p) is None]
        if not missing:
            try:
                self.kubectl("get", "--raw", "/readyz", timeout_s=20, namespaced=False)
            except CommandFailed:
                missing.append("a cluster that kubectl reaches (KUBECONFIG)")
        if not self.chart.exists():
            missing.append(f"the chart ({self.chart})")
        if missing:
            raise Missing(", ".join(missing))

    def run(self, *command: str, timeout_s: float, given: bytes = b"") -> bytes:
        """What the command printed. Raises `CommandFailed`."""
        shown = " ".join(command)[:300]
        try:
            done = subprocess.run(command, input=given, capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"{shown}\n  did not end within {timeout_s:.0f} s") from error
        if done.returncode != 0:
            said = (done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")).strip()
            raise CommandFailed(f"{shown}\n  exit code {done.returncode}: {said[-2_000:]}")
        return done.stdout

    def kubectl(self, *arguments: str, timeout_s: float = 60, given: bytes = b"", namespaced: bool = True) -> bytes:
        """kubectl in the namespace. Raises `CommandFailed`."""
        where = ("-n", self.namespace) if namespaced else ()
        return self.run(self.kubectl_program, *where, *arguments, timeout_s=timeout_s, given=given)

    def helm(self, *arguments: str, timeout_s: float) -> bytes:
        """helm in the namespace; `timeout_s` bounds `--wait` as well. Raises `CommandFailed`."""
        return self.run(self.helm_program, "-n", self.namespace, *arguments, timeout_s=timeout_s + 30)

    # ------------------------------------------------------------ objects

    def get(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind, of the release unless another selector is given."""
        found = self.kubectl("get", kind, "-l", selector or f"{INSTANCE}={self.release}", "-o", "json")
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return items

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Creates or changes objects."""
        listing = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--server-side", "-f", "-", given=json.dumps(listing).encode())

    def pods(self, component: str = "") -> list[Pod]:
        """The release's pods, by name."""
        found = [_pod(item) for item in self.get("pods")]
        return sorted((p for p in found if component in ("", p.component)), key=lambda pod: pod.name)

    def service_pods(self) -> list[Pod]:
        """Pods that serve, not those of jobs and tests."""
        kinds = {
            item["metadata"]["labels"].get(COMPONENT) for item in [*self.get("statefulset"), *self.get("deployment")]
        }
        return [pod for pod in self.pods() if pod.component in kinds]

    def wait_ready(self, timeout_s: float) -> None:
        """Returns when every workload has all its replicas, of the newest revision, ready. Raises `CommandFailed`."""
        deadline = time.monotonic() + timeout_s
        for kind in ("statefulset", "deployment"):
            for item in self.get(kind):
                left = max(1, int(deadline - time.monotonic()))
                name = f"{kind}/{item['metadata']['name']}"
                self.kubectl("rollout", "status", name, f"--timeout={left}s", timeout_s=left + 15)

    def delete_pod(self, name: str, timeout_s: float = 180, *, grace: bool = True) -> None:
        """Deletes a pod as an eviction would, or at once, and waits until it is gone."""
        at_once = () if grace else ("--grace-period=0", "--force")
        self.kubectl("delete", "pod", name, "--wait=true", *at_once, timeout_s=timeout_s)

    def node_address(self) -> str:
        """The address of the first node, at which its node ports answer."""
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json", namespaced=False))["items"]
        (address, *_) = [a["address"] for a in nodes[0]["status"]["addresses"] if a["type"] == "InternalIP"]
        return str(address)

    def unable_to_start(self) -> list[str]:
        """Pods whose image is not there, with the reason."""
        return [f"{pod.name}: {pod.waiting}" for pod in self.pods() if pod.waiting in _WAITING_FOR_EVER]

    # ------------------------------------------------------------ what to look at after a failure

    def save_logs(self, folder: Path) -> None:
        """Writes events, descriptions and logs of all pods, also of their former lives, into the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._save(folder / "objects.txt", "get", "all,pvc,pdb", "-o", "wide")
        self._save(folder / "events.txt", "get", "events", "--sort-by=.lastTimestamp")
        self._save(folder / "pods.txt", "describe", "pods")
        try:
            names = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        except CommandFailed:
            return
        for item in names:
            name = item["metadata"]["name"]
            self._save(folder / f"{name}.log", "logs", name, "--all-containers", "--tail=20000")
            self._save(folder / f"{name}.previous.log", "logs", name, "--all-containers", "--previous")

    def _save(self, path: Path, *arguments: str) -> None:
        try:
            path.write_bytes(self.kubectl(*arguments))
        except CommandFailed as error:
            if "previous" not in path.name:
                path.write_text(str(error))


def _pod(item: dict[str, Any]) -> Pod:
    status = item.get("status", {})
    conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
    containers = status.get("containerStatuses", [])
    waiting = [c["state"]["waiting"].get("reason", "") for c in containers if "waiting" in c.get("state", {})]
    return Pod(
        name=item["metadata"]["name"],
        component=item["metadata"].get("labels", {}).get(COMPONENT, ""),
        uid=item["metadata"]["uid"],
        ready=conditions.get("Ready") == "True" and "deletionTimestamp" not in item["metadata"],
        restarts=sum(c.get("restartCount", 0) for c in containers),
        waiting=waiting[0] if waiting else "",
    )
