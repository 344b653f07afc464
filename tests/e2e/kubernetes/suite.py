"""The story: install, test, load; upgrade, delete and scale under the load; uninstall, and install on the same volumes;
then Spark writes to it from outside.

Rule 1: the load never stops between its start and its judgement; every step happens to a cluster that works.
Rule 2: a step is over when all pods are ready again *and* the cluster calls itself healthy.
Rule 3: a step that fails is reported; what depends on it is not tried, what does not is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.e2e.kubernetes import guard, judging
from tests.e2e.kubernetes.cluster import CHART, COMPONENT, INSTANCE, Cluster, CommandFailed
from tests.e2e.kubernetes.load_pod import LoadPod
from tests.e2e.kubernetes.recording import Recording, Records
from tests.e2e.kubernetes.report import Report, Step, Wrong
from tests.simulation.history import Key

INSTALL_MAX_S: Final = 90.0
"""`helm install --wait` of the default values, images loaded."""
SERVICES: Final = {
    "pid-allocator": "pidAllocator",
    "coordinator": "coordinator",
    "partition-leader": "partitionLeader",
    "etcd": "etcd",
}
"""Components by their label, and where their values are."""
_CALM_S: Final = 8.0
_CALLS_FIRST: Final = 100
_HELM_S: Final = 420.0
_HEALTHY_S: Final = 180.0
_SPARK_S: Final = 900.0
_BOOTSTRAP_PORT: Final = 30090
_FIRST_BROKER_PORT: Final = 30100
_FIRST_COORDINATOR_PORT: Final = 30120


@dataclass(frozen=True, slots=True)
class Settings:
    """What the suite is told."""

    image: str
    chart: Path = CHART
    pull_policy: str = "IfNotPresent"
    etcd_image: str = ""
    values: tuple[str, ...] = ()
    namespace: str = "oncelog-e2e"
    release: str = "oncelog"
    producers: int = 8
    keep: bool = False
    spark: bool = True
    secure: bool = False
    """Certificates, access rules and service accounts (`guard.py`). Spark from outside has no account and is left out."""
    node_address: str = ""
    """Host at which clients outside reach node ports; empty = what the first node says."""
    logs: Path = field(default=Path("tests/out/e2e-kubernetes"))


class Suite:
    """Runs the story once; `report` tells it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.report = Report()
        self.cluster = Cluster(settings.namespace, settings.release, settings.chart)
        servers = f"{settings.release}:9092"
        self.load = LoadPod(self.cluster, settings.image, settings.pull_policy, servers, secure=settings.secure)
        self.recording: Recording | None = None
        self._extra: list[str] = []
        self._disturbances: list[Step] = []

    def run(self) -> None:
        """The whole story. Raises `Wrong` or `CommandFailed` at what cannot be survived; logs are saved then."""
        self.cluster.check_there()
        try:
            self._prepare()
            self._install()
            self._helm_test()
            self._under_load()
            self._again_on_the_same_volumes()
            self._spark_from_outside()
        except BaseException:
            self.cluster.save_logs(self.settings.logs)
            raise
        finally:
            if not self.settings.keep:
                self._clean()

    # ------------------------------------------------------------ beginning and end

    def _prepare(self) -> None:
        """A fresh namespace that admits only pods of the restricted profile."""
        with self.report.step("fresh namespace, Pod Security restricted"):
            self._clean()
            labels = {"pod-security.kubernetes.io/enforce": "restricted"}
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.settings.namespace}}
            namespace["metadata"] |= {"labels": labels}  # type: ignore[operator]
            self.cluster.apply(namespace)
        if self.settings.secure:
            with self.report.step("certificates, keys of tokens, an account for the load"):
                self._extra += ["-f", str(guard.prepare(self.cluster, self.settings.logs))]

    def _clean(self) -> None:
        self.cluster.kubectl(
            *("delete", "namespace", self.settings.namespace, "--ignore-not-found", "--timeout=180s"),
            timeout_s=200,
            namespaced=False,
        )

    # ------------------------------------------------------------ the chart

    def _values(self) -> list[str]:
        """The default values, but for where images come from and what the suite's user added."""
        flags = [flag for path in self.settings.values for flag in ("-f", path)]
        for key, image in (("image", self.settings.image), ("etcd.image", self.settings.etcd_image)):
            if image:
                registry, repository, tag = split_image(image)
                flags += ["--set-string", f"{key}.registry={registry},{key}.repository={repository},{key}.tag={tag}"]
                flags += ["--set-string", f"{key}.pullPolicy={self.settings.pull_policy}"]
        return flags + self._extra

    def _helm_install(self, verb: str) -> None:
        wait = ("--wait", f"--timeout={_HELM_S:.0f}s")
        try:
            self.cluster.helm(
                verb, self.settings.release, str(self.cluster.chart), *self._values(), *wait, timeout_s=_HELM_S
            )
        except CommandFailed as error:
            unable = self.cluster.unable_to_start()
            if unable:
                raise CommandFailed(f"the cluster has no such image, load it first: {'; '.join(unable)}") from error
            raise

    def _install(self) -> None:
        with self.report.step("helm install --wait, default values", Wrong) as step:
            began = time.monotonic()
            self._helm_install("install")
            seconds = time.monotonic() - began
            step.detail = self._pods_line()
            if seconds > INSTALL_MAX_S:
                raise Wrong(f"it took {seconds:.0f} s, more than {INSTALL_MAX_S:.0f} s")

    def _helm_test(self) -> None:
        with self.report.step("helm test", Wrong, CommandFailed) as step:
            said = self.cluster.helm("test", self.settings.release, "--timeout=180s", timeout_s=180).decode()
            passed = said.count("Phase:          Succeeded")
            step.detail = f"{passed} tests passed"
            if not passed:
                raise Wrong("the chart has no test")

    def _pods_line(self) -> str:
        pods = self.cluster.service_pods()
        restarts = sum(pod.restarts for pod in pods)
        return f"{sum(pod.ready for pod in pods)} of {len(pods)} pods ready, {restarts} restarts"

    # ------------------------------------------------------------ under load

    def _under_load(self) -> None:
        with self.report.step("start of the load") as step:
            self.load.start("run", "--stay", "--producers", str(self.settings.producers))
            self._wait_for_calls(_CALLS_FIRST)
            step.detail = f"{self.settings.producers} transactional producers, 2 plain, 3 readers, 1 copier"
        for component, key in SERVICES.items():
            self._disturb(f"rolling upgrade of {component}", partial(self._roll, component, key))
        for component in SERVICES:
            self._disturb(f"deletion of a {component} pod", partial(self._delete_one, component))
        self._disturb("a broker killed without grace", partial(self._delete_one, "partition-leader", grace=False))
        self._disturb("scale-out to 4 brokers", self._scale_out)
        self._judge()

    def _wait_for_calls(self, more: int) -> None:
        """Returns when the load has made so many more calls: it works, now."""
        deadline = time.monotonic() + 120
        first: int | None = None
        while time.monotonic() < deadline:
            counts = self.load.progress()
            done = sum(count for name, count in counts.items() if name in ("txn ok", "send ok"))
            first = done if first is None and counts else first
            if first is not None and done - first >= more:
                return
            time.sleep(1)
        raise Wrong(f"the load did not make {more} calls within 120 s")

    def _disturb(self, name: str, act: Callable[[], None]) -> None:
        """One disturbance, until everything is well again; then some calm, in which the load must go on."""
        with self.report.step(name, Wrong, CommandFailed) as step:
            self._disturbances.append(step)
            act()
            self.cluster.wait_ready(_HELM_S)
            self.load.wait_healthy(_HEALTHY_S)
            step.detail = self._pods_line()
        time.sleep(_CALM_S)
        self._wait_for_calls(_CALLS_FIRST // 4)

    def _roll(self, component: str, key: str) -> None:
        """A changed annotation of the pods: every pod of the service is replaced."""
        before = {pod.uid for pod in self.cluster.pods(component)}
        self._extra += ["--set-string", f"{key}.podAnnotations.rolled={time.time_ns()}"]
        self._helm_install("upgrade")
        self.cluster.wait_ready(_HELM_S)
        left = before & {pod.uid for pod in self.cluster.pods(component)}
        if left or not before:
            raise Wrong(f"{len(left)} of {len(before)} pods of {component} were not replaced")

    def _delete_one(self, component: str, *, grace: bool = True) -> None:
        pods = self.cluster.pods(component)
        if not pods:
            raise Wrong(f"there is no pod of {component}")
        self.cluster.delete_pod(pods[0].name, grace=grace)

    def _scale_out(self) -> None:
        self._extra += ["--set", "partitionLeader.replicaCount=4"]
        self._helm_install("upgrade")
        brokers = [pod for pod in self.cluster.pods("partition-leader") if pod.ready]
        if len(brokers) != 4:
            raise Wrong(f"{len(brokers)} brokers are ready")

    def _judge(self) -> None:
        with self.report.step("end of the load, final read") as step:
            self.recording = recording = self.load.finish(timeout_s=240)
            records = sum(len(found) for found in recording.final.values())
            step.detail = f"{records} records; " + ", ".join(f"{k} {v}" for k, v in sorted(recording.counts.items()))
        for disturbance in self._disturbances:
            begin, end = disturbance.began_ms, disturbance.began_ms + int(disturbance.seconds * 1000)
            disturbance.figures["calls"] = judging.calls(recording, begin, end)
            disturbance.figures["slowest call ms"] = judging.slowest_call_ms(recording, begin, end)
        with self.report.step("failed calls beyond retriable ones", Wrong) as step:
            failed = judging.failed_calls(recording)
            step.detail = f"{len(failed)}; errors that callers saw: {judging.error_names(recording)}"
            if failed:
                raise Wrong(f"{len(failed)} calls failed, first: {failed[0]}")
        with self.report.step("history checker", Wrong) as step:
            found = judging.anomalies(recording)
            step.detail = f"{len(found)} anomalies in {len(recording.history.operations)} operations"
            if found:
                raise Wrong(f"{len(found)} anomalies, first: {found[0]}")

    # ------------------------------------------------------------ uninstall, install again

    def _again_on_the_same_volumes(self) -> None:
        assert self.recording is not None
        if self.report.failed:
            self.cluster.save_logs(self.settings.logs)
        self.load.delete()
        with self.report.step("helm uninstall leaves only the volumes", Wrong) as step:
            self.cluster.helm("uninstall", self.settings.release, "--wait", "--timeout=240s", timeout_s=240)
            self._wait_for_no_pods(_HEALTHY_S)  # Helm does not wait for the pods of what it deletes
            left = self._left_behind()
            step.detail = f"{left.pop('persistentvolumeclaim', 0)} claims left"
            if left:
                raise Wrong(f"also left: {left}")
        with self.report.step("helm install --wait on these volumes") as step:
            self._helm_install("install")
            step.detail = self._pods_line()
        with self.report.step("every record is found again") as step:
            self.load.start("run", "--idle")
            self.load.wait_healthy(_HEALTHY_S)
            found = self.load.read_all()
            step.detail = _compare(self.recording.final, found)

    # ------------------------------------------------------------ from outside

    def _spark_from_outside(self) -> None:
        """The Spark job of `make demo` on this machine, by node ports and advertised addresses; it is killed once."""
        if not self.settings.spark or self.settings.secure:
            return
        host = self.settings.node_address or self.cluster.node_address()
        with self.report.step("external access by node ports", CommandFailed) as step:
            self._extra += external_access(host)
            self._helm_install("upgrade")
            self.cluster.wait_ready(_HELM_S)
            self.load.wait_healthy(_HEALTHY_S)
            step.detail = self._pods_line()
        with self.report.step("Spark from outside: make demo", CommandFailed) as step:
            command = (sys.executable, "-m", "demo", "--bootstrap-servers", f"{host}:{_BOOTSTRAP_PORT}")
            said = self.cluster.run(*command, timeout_s=_SPARK_S).decode()
            step.detail = said.strip().splitlines()[-1]

    def _wait_for_no_pods(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.cluster.pods() and time.monotonic() < deadline:
            time.sleep(0.5)

    def _left_behind(self) -> dict[str, int]:
        """How many objects of the release there are, by kind."""
        kinds = ("pod", "service", "statefulset", "deployment", "job", "configmap", "secret", "serviceaccount")
        kinds += ("poddisruptionbudget", "networkpolicy", "role", "rolebinding", "persistentvolumeclaim")
        counts = {
            kind: len(self.cluster.get(kind, f"{INSTANCE}={self.settings.release},{COMPONENT}")) for kind in kinds
        }
        return {kind: count for kind, count in counts.items() if count}


def external_access(host: str) -> list[str]:
    """Flags that give every broker and coordinator a node port, advertised at this host."""
    values = [f"externalAccess.enabled=true,externalAccess.bootstrap.nodePort={_BOOTSTRAP_PORT}"]
    for key, port in (("partitionLeader", _FIRST_BROKER_PORT), ("coordinator", _FIRST_COORDINATOR_PORT)):
        values.append(f"externalAccess.{key}.advertisedHosts={{{host}}},externalAccess.{key}.firstNodePort={port}")
    return [flag for value in values for flag in ("--set", value)]


def split_image(image: str) -> tuple[str, str, str]:
    """Registry, repository and tag of an image's name; a name without registry is Docker Hub's.

    As Docker reads names: the part before the first slash is a registry if it could be a host.
    """
    path, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "latest")
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest, tag
    return "docker.io", path if slash else f"library/{path}", tag


def _compare(before: dict[Key, Records], after: dict[Key, Records]) -> str:
    """Raises `Wrong` unless all records are where they were."""
    different = [key for key, records in before.items() if after.get(key) != records]
    count = sum(len(records) for records in before.values())
    if different:
        raise Wrong(f"{len(different)} of {len(before)} partitions differ, first {different[0]}")
    return f"{count} records in {len(before)} partitions, each at its offset"
