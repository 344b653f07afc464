"""Looks into rendered objects: pods, containers, variables, what they would be in a running pod."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.chart.tools import Document

WORKLOADS: Final = ("StatefulSet", "Deployment", "DaemonSet", "Job", "Pod")
LONG_LIVED: Final = ("StatefulSet", "Deployment", "DaemonSet")
POD_FIELDS: Final[Mapping[str, str]] = {
    "metadata.namespace": "default",
    "metadata.labels['apps.kubernetes.io/pod-index']": "0",
    "status.podIP": "10.0.0.7",
    "status.hostIP": "10.0.0.1",
    "spec.nodeName": "node-1",
}
"""What the kubelet would put in place of a field reference; any other label is empty."""


def of_kind(documents: list[Document], *kinds: str) -> list[Document]:
    """The objects of some kinds."""
    return [document for document in documents if document.get("kind") in kinds]


def pod_template(document: Document) -> dict[str, Any]:
    """Metadata and spec of the pods of a workload, or of the pod itself."""
    return document if document["kind"] == "Pod" else document["spec"]["template"]


def containers(document: Document, *, init: bool = True) -> Iterator[dict[str, Any]]:
    """Every container of a workload."""
    spec = pod_template(document)["spec"]
    yield from spec.get("containers", [])
    if init:
        yield from spec.get("initContainers", [])


def first_pod(document: Document) -> str:
    """The name of the first pod of a workload."""
    return f"{document['metadata']['name']}-0"


def environment(document: Document, container: Mapping[str, Any]) -> dict[str, str]:
    """The variables as the process sees them in the first pod, with `$(NAME)` of earlier ones put in."""
    fields = {**POD_FIELDS, "metadata.name": first_pod(document)}
    known: dict[str, str] = {}
    for entry in container.get("env", []):
        if "value" in entry:
            known[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: known.get(m[1], m[0]), entry["value"])
        else:
            path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            known[entry["name"]] = fields.get(path, "") if path else "secret"
    return known


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """True when all pairs of the selector are among the labels."""
    return bool(selector) and selector.items() <= labels.items()


def mounted_file(document: Document, container: Mapping[str, Any], path: str, documents: list[Document]) -> str | None:
    """What a process of the first pod reads at a path that is one entry of a ConfigMap; None when there is nothing."""
    mount = next((m for m in container.get("volumeMounts", []) if m["mountPath"] == path), None)
    if mount is None:
        return None
    entry = mount.get("subPath") or mount["subPathExpr"].replace("$(POD_NAME)", first_pod(document))
    volumes = pod_template(document)["spec"]["volumes"]
    volume = next((v for v in volumes if v["name"] == mount["name"]), {})
    wanted = volume.get("configMap", {}).get("name")
    maps = (m for m in of_kind(documents, "ConfigMap") if m["metadata"]["name"] == wanted)
    data: dict[str, str] = next(maps, {}).get("data", {})
    return data.get(entry)
