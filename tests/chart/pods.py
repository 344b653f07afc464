"""Looks into rendered objects: pods, containers, variables, what they would be in a running pod."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.chart.tools import Document

WORKLOADS: Final = ("StatefulSet", "Deployment", "DaemonSet", "Job", "Pod")
LONG_LIVED: Final = ("StatefulSet", "Deployment", "DaemonSet")
POD_FIELDS: Final[Mapping[str, str]] = {
    "metadata.name": "oncelog-pod-1",
    "metadata.namespace": "default",
    "metadata.labels['apps.kubernetes.io/pod-index']": "1",
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


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables as the process sees them, with `$(NAME)` of earlier ones put in."""
    known: dict[str, str] = {}
    for entry in container.get("env", []):
        if "value" in entry:
            known[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: known.get(m[1], m[0]), entry["value"])
        else:
            path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            known[entry["name"]] = POD_FIELDS.get(path, "") if path else "secret"
    return known


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """True when all pairs of the selector are among the labels."""
    return bool(selector) and selector.items() <= labels.items()
