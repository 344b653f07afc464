"""Every object against Kubernetes's own schemas, unknown keys refused, in several versions.

Rule 1: the schemas are files of the package kubernetes-validate (`.venv-chart`, made by `make chart`), or of the folder
        that KUBERNETES_SCHEMAS names. Objects of other makers (cert-manager, Prometheus) have small schemas of ours in
        `crds/`: the fields that the chart sets, and no others.
Rule 2: an object for which there is no schema is a problem.
Rule 3: where kubeconform is on PATH it gives a second opinion, from the same schemas.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml

from tests.chart.tools import ROOT, Document, label

VERSIONS: Final = ("1.28", "1.33", "1.37")
"""The oldest that Chart.yaml allows, one between, the newest."""
_CRDS: Final = Path(__file__).parent / "crds"


def schema_folder() -> Path | None:
    """Where the folders `v1.37.0-local-strict` are."""
    if given := os.environ.get("KUBERNETES_SCHEMAS"):
        return Path(given)
    found = sorted(ROOT.glob(".venv-chart/lib/python3*/site-packages/kubernetes_validate/kubernetes-json-schema"))
    return found[0] if found else None


def _file_name(document: Document) -> str:
    """`statefulset-apps-v1`: kind, first word of the group, version."""
    group, _, version = document["apiVersion"].rpartition("/")
    group = group.split(".")[0]
    return "-".join(part for part in (document["kind"].lower(), group, version) if part)


@cache
def _definitions(folder: Path) -> Any:
    text = (folder / "_definitions.json").read_text(encoding="utf-8")
    return json.loads(text.replace('"/api/_definitions.json#/', '"#/'))["$defs"]


@cache
def _validator(folder: Path, name: str) -> Any:
    """A validator of one kind, or None."""
    crd = _CRDS / f"{name}.json"
    if crd.exists():
        return jsonschema.Draft202012Validator(json.loads(crd.read_text(encoding="utf-8")))
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8").replace('"/api/_definitions.json#/', '"#/')
    schema = json.loads(text)
    schema.pop("$id", None)
    return jsonschema.Draft202012Validator({**schema, "$defs": _definitions(folder)})


def problems(documents: list[Document], version: str, root: Path) -> Iterator[str]:
    """What the schemas of a version refuse."""
    folder = root / f"v{version}.0-local-strict"
    for document in documents:
        validator = _validator(folder, _file_name(document))
        if validator is None:
            yield f"{label(document)}: Kubernetes {version} knows no {document['apiVersion']} {document['kind']}"
            continue
        for error in validator.iter_errors(document):
            where = ".".join(map(str, error.absolute_path))
            yield f"{label(document)} {where} (Kubernetes {version}): {error.message}"


def distinct(documents: list[Document]) -> list[Document]:
    """Each object once: most renderings share most objects."""
    return list({json.dumps(document, sort_keys=True): document for document in documents}.values())


def kubeconform(program: str, documents: list[Document], version: str, root: Path, work: Path) -> list[str]:
    """What kubeconform says about all objects; `work` takes the schemas in the layout that it reads."""
    target = work / f"v{version}.0-standalone-strict"
    target.mkdir(parents=True, exist_ok=True)
    source = root / f"v{version}.0-local-strict"
    for name in {"_definitions", *map(_file_name, documents)}:
        crd = _CRDS / f"{name}.json"
        path = crd if crd.exists() else source / f"{name}.json"
        if path.exists():
            text = path.read_text(encoding="utf-8").replace('"/api/_definitions.json#', '"_definitions.json#')
            schema = json.loads(text)
            schema.pop("$id", None)
            (target / f"{name}.json").write_text(json.dumps(schema), encoding="utf-8")
    done = subprocess.run(
        [
            program,
            "-strict",
            "-output",
            "json",
            "-kubernetes-version",
            f"{version}.0",
            "-schema-location",
            str(work),
            "-",
        ],
        input=yaml.safe_dump_all(documents),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode == 0:
        return []
    found = json.loads(done.stdout or "{}").get("resources", [])
    return [f"{one['kind']}/{one['name']} (kubeconform {version}): {one['msg']}" for one in found] or [
        done.stderr.strip()
    ]
