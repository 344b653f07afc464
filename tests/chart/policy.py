"""What every object of the chart must be, whatever the values: one function per rule, each returns its problems.

A problem is one sentence that begins with the object's name. No rule needs Helm or a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.chart import pods
from tests.chart.tools import Document, label

Rule = Callable[[list[Document]], Iterator[str]]


def unique_objects(documents: list[Document]) -> Iterator[str]:
    """No two objects of one kind and name."""
    for name, count in Counter(map(label, documents)).items():
        if count > 1:
            yield f"{name} is there {count} times"


def unique_list_keys(documents: list[Document]) -> Iterator[str]:
    """Server-side apply refuses a variable, a port name, a port number, a volume or a mount path given twice."""
    for document in pods.of_kind(documents, *pods.WORKLOADS):
        for container in pods.containers(document):
            where = f"{label(document)} {container['name']}"
            yield from _twice(where, "variable", [e["name"] for e in container.get("env", [])])
            ports = container.get("ports", [])
            yield from _twice(where, "port name", [p.get("name") for p in ports])
            yield from _twice(where, "port", [(p["containerPort"], p.get("protocol", "TCP")) for p in ports])
            yield from _twice(where, "mount path", [m["mountPath"] for m in container.get("volumeMounts", [])])
        volumes = pods.pod_template(document)["spec"].get("volumes", [])
        yield from _twice(label(document), "volume", [v["name"] for v in volumes])
    for document in pods.of_kind(documents, "Service"):
        yield from _twice(label(document), "port", [(p["port"], p.get("protocol")) for p in document["spec"]["ports"]])
        yield from _twice(label(document), "port name", [p.get("name") for p in document["spec"]["ports"]])


def _twice(where: str, what: str, items: list[Any]) -> Iterator[str]:
    for item, count in Counter(items).items():
        if count > 1:
            yield f"{where}: {what} {item} is there {count} times"


def three_probes(documents: list[Document]) -> Iterator[str]:
    """Every container that lives long has three probes, which ask different things."""
    for document in pods.of_kind(documents, *pods.LONG_LIVED):
        for container in pods.containers(document, init=False):
            asked = []
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe not in container:
                    yield f"{label(document)} {container['name']} has no {probe}"
                asked.append(repr(container.get(probe, {}).get("grpc")))
            if "grpc" in container.get("livenessProbe", {}) and len(set(asked)) != 3:
                yield f"{label(document)} {container['name']}: its probes ask the same: {asked}"


def resources(documents: list[Document]) -> Iterator[str]:
    """Every container asks for CPU and memory and has a bound of memory."""
    for document in pods.of_kind(documents, *pods.WORKLOADS):
        for container in pods.containers(document):
            given = container.get("resources", {})
            for part, name in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory")):
                if name not in given.get(part, {}):
                    yield f"{label(document)} {container['name']} has no resources.{part}.{name}"


def restricted(documents: list[Document]) -> Iterator[str]:
    """Pod Security "restricted" admits every pod; the root file system is read-only on top."""
    for document in pods.of_kind(documents, *pods.WORKLOADS):
        spec = pods.pod_template(document)["spec"]
        pod = spec.get("securityContext", {})
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(key):
                yield f"{label(document)} has {key}"
        if any("hostPath" in volume for volume in spec.get("volumes", [])):
            yield f"{label(document)} has a hostPath volume"
        for container in pods.containers(document):
            where = f"{label(document)} {container['name']}"
            own = container.get("securityContext", {})
            wanted = {
                "runAsNonRoot": own.get("runAsNonRoot", pod.get("runAsNonRoot")) is True,
                "a user that is not root": own.get("runAsUser", pod.get("runAsUser")) != 0,
                "seccompProfile RuntimeDefault": _seccomp(own, pod) in ("RuntimeDefault", "Localhost"),
                "allowPrivilegeEscalation false": own.get("allowPrivilegeEscalation") is False,
                "all capabilities dropped": "ALL" in own.get("capabilities", {}).get("drop", []),
                "no capability added": not set(own.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"},
                "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
                "not privileged": not own.get("privileged"),
                "no host port": not any("hostPort" in port for port in container.get("ports", [])),
            }
            yield from (f"{where} is not restricted: wanted {what}" for what, holds in wanted.items() if not holds)


def _seccomp(own: dict[str, Any], pod: dict[str, Any]) -> Any:
    return own.get("seccompProfile", pod.get("seccompProfile", {})).get("type")


def no_tokens(documents: list[Document]) -> Iterator[str]:
    """No service talks to Kubernetes, so none has a token, a role, or variables of other services."""
    for document in pods.of_kind(documents, *pods.WORKLOADS):
        spec = pods.pod_template(document)["spec"]
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{label(document)} mounts a service account token"
        if spec.get("enableServiceLinks") is not False:
            yield f"{label(document)} gets a variable for every service of the namespace"
    for document in pods.of_kind(documents, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        yield f"{label(document)}: there must be no roles"


def selectors_match(documents: list[Document]) -> Iterator[str]:
    """Each selector finds the pods that it means, and each service's target port is one of theirs."""
    workloads = pods.of_kind(documents, *pods.LONG_LIVED)
    templates = [pods.pod_template(workload) for workload in workloads]
    for workload in workloads:
        labels = pods.pod_template(workload)["metadata"]["labels"]
        selector = workload["spec"]["selector"]["matchLabels"]
        if not pods.selects(selector, labels):
            yield f"{label(workload)} does not select its own pods"
        found = [w for w in workloads if pods.selects(selector, pods.pod_template(w)["metadata"]["labels"])]
        if len(found) != 1:
            yield f"{label(workload)} also selects the pods of {[label(w) for w in found if w is not workload]}"
    for service in pods.of_kind(documents, "Service"):
        yield from _service_matches(service, templates)
    for budget in pods.of_kind(documents, "PodDisruptionBudget"):
        selector = budget["spec"]["selector"]["matchLabels"]
        if sum(pods.selects(selector, t["metadata"]["labels"]) for t in templates) != 1:
            yield f"{label(budget)} does not select the pods of exactly one workload"


def _service_matches(service: Document, templates: list[dict[str, Any]]) -> Iterator[str]:
    selector = {
        k: v for k, v in service["spec"].get("selector", {}).items() if k != "statefulset.kubernetes.io/pod-name"
    }
    found = [t for t in templates if pods.selects(selector, t["metadata"]["labels"])]
    if len(found) != 1:
        yield f"{label(service)} selects the pods of {len(found)} workloads"
        return
    ports = [port for c in found[0]["spec"]["containers"] for port in c.get("ports", [])]
    known = {port["name"] for port in ports} | {port["containerPort"] for port in ports}
    for port in service["spec"]["ports"]:
        target = port.get("targetPort", port["port"])
        if target not in known:
            yield f"{label(service)}: no container has the target port {target}"


def stable_selectors(documents: list[Document]) -> Iterator[str]:
    """What Kubernetes never lets change holds nothing that changes: chart version, application version, free labels."""
    allowed = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}
    for workload in pods.of_kind(documents, *pods.LONG_LIVED):
        if keys := set(workload["spec"]["selector"]["matchLabels"]) - allowed:
            yield f"{label(workload)} selects by {sorted(keys)}"
        for claim in workload["spec"].get("volumeClaimTemplates", []):
            if keys := set(claim["metadata"].get("labels", {})) - allowed:
                yield f"{label(workload)}: its claim {claim['metadata']['name']} has the labels {sorted(keys)}"


_OBJECT_META = {"name", "namespace", "labels", "annotations", "generateName", "finalizers", "ownerReferences"}


def only_metadata_in_metadata(documents: list[Document]) -> Iterator[str]:
    """The API server refuses other fields (server-side apply), and a client-side install drops them without a word."""
    for document in documents:
        if unknown := set(document["metadata"]) - _OBJECT_META:
            yield f"{label(document)} has {', '.join(sorted(unknown))} in its metadata"


def named_and_labelled(documents: list[Document]) -> Iterator[str]:
    """Every object has the labels that tools look for, a namespace, and names that fit."""
    for document in documents:
        metadata = document["metadata"]
        labels = metadata.get("labels", {})
        for key in ("app.kubernetes.io/name", "app.kubernetes.io/instance", "helm.sh/chart"):
            if key not in labels and not metadata.get("annotations", {}).get("oncelog.test/foreign"):
                yield f"{label(document)} has no label {key}"
        limit = 52 if document["kind"] == "StatefulSet" else 63
        if len(metadata["name"]) > limit:
            yield f"{label(document)}: the name has over {limit} characters"


def claims_and_mounts(documents: list[Document]) -> Iterator[str]:
    """Every mount has its volume."""
    for document in pods.of_kind(documents, *pods.WORKLOADS):
        volumes = {volume["name"] for volume in pods.pod_template(document)["spec"].get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
        for container in pods.containers(document):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{label(document)} {container['name']} mounts {mount['name']}, which is no volume"


def peers_resolve(documents: list[Document]) -> Iterator[str]:
    """A StatefulSet's own service exists, is headless, and names pods before they are ready."""
    services = {service["metadata"]["name"]: service for service in pods.of_kind(documents, "Service")}
    for workload in pods.of_kind(documents, "StatefulSet"):
        spec = services.get(workload["spec"]["serviceName"], {}).get("spec", {})
        if spec.get("clusterIP") != "None" or spec.get("publishNotReadyAddresses") is not True:
            yield f"{label(workload)}: its service is not headless, or hides pods that are not ready"
        if workload["spec"].get("podManagementPolicy") != "Parallel":
            yield f"{label(workload)} does not start its pods in parallel"


RULES: Final[tuple[Rule, ...]] = (
    unique_objects,
    unique_list_keys,
    three_probes,
    resources,
    restricted,
    no_tokens,
    selectors_match,
    stable_selectors,
    only_metadata_in_metadata,
    named_and_labelled,
    claims_and_mounts,
    peers_resolve,
)


def problems(documents: list[Document]) -> list[str]:
    """What every rule finds."""
    return [problem for rule in RULES for problem in rule(documents)]
