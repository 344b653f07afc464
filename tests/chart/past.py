"""What an upgrade may not change: Kubernetes refuses it, and `helm upgrade` fails halfway.

Rule 1: the fields below are compared between two renderings, object by object; what is new or gone is not compared,
        except that a StatefulSet that is gone takes its pods with it and is always a problem.
Rule 2: the past is the chart of the newest tag `v*`, else the chart as it first stood in the repository.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from tests import archives
from tests.chart.tools import ROOT, Document, label

_FREE: Final = {
    "StatefulSet": {
        "replicas",
        "template",
        "updateStrategy",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
    }
}


def frozen(document: Document) -> Any:
    """The part of an object that Kubernetes never lets change."""
    spec = document.get("spec", {})
    if document["kind"] == "StatefulSet":
        return {key: value for key, value in spec.items() if key not in _FREE["StatefulSet"]}
    if document["kind"] in ("Deployment", "DaemonSet"):
        return spec.get("selector")
    if document["kind"] == "Service":
        return spec.get("clusterIP") == "None"
    if document["kind"] == "Job" and "helm.sh/hook" not in document["metadata"].get("annotations", {}):
        return {"selector": spec.get("selector"), "template": spec.get("template")}
    return None


def problems(before: list[Document], after: list[Document]) -> Iterator[str]:
    """Immutable fields that differ, one sentence each."""
    new = {label(document): document for document in after}
    for document in before:
        name = label(document)
        if name not in new:
            if document["kind"] == "StatefulSet":
                yield f"{name} is gone: an upgrade would take its pods away"
        elif frozen(document) != frozen(new[name]):
            yield f"{name}: an upgrade would change what cannot change: {frozen(document)} -> {frozen(new[name])}"


def previous_revision() -> str | None:
    """The newest tag `v*`, else the commit that brought the chart; None without git or without a chart in it."""
    tags = _git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD").split()
    for tag in tags:
        if _git("ls-tree", tag, "helm/oncelog/Chart.yaml"):
            return tag
    commits = _git("log", "--format=%h", "--diff-filter=A", "--", "helm/oncelog/Chart.yaml").split()
    return commits[-1] if commits else None


def unpack(revision: str, folder: Path) -> Path:
    """The chart as it was at a revision."""
    archive = subprocess.run(
        ["git", "archive", revision, "helm/oncelog"], cwd=ROOT, capture_output=True, timeout=60, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        archives.unpack(tar, folder)
    return folder / "helm" / "oncelog"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
