"""`make sbom`: what is in the image and what comes with the wheel, as CycloneDX 1.6 JSON, from the lock files alone.

    python scripts/sbom.py [--out build/sbom]

Rule 1: no network, no clock, no random number: the same sources make the same bytes.
Rule 2: a lock file holds the hashes of every file of a version, for all platforms; they stand as properties, since which one of
        them was installed is not known here.
Rule 3: what is not listed is said: the base image is one component by its digest, and its own packages are marked as unknown.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts import lockfiles
from scripts.licences import Licences
from scripts.lockfiles import LOCKS, ROOT, Package, normalised

_NAMESPACE: Final = uuid.UUID("6f0c8a6e-53a4-5b8e-9f2e-2d0c5d4f6a11")
_REQUIRED_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_BASE: Final = re.compile(
    r"^ARG BASE_IMAGE=(?P<name>[^@\s]+?)(?::(?P<tag>[^@:/\s]+))?@(?P<digest>sha256:[0-9a-f]{64})$", re.MULTILINE
)


class SbomError(Exception):
    """What is needed for the list is not there; the message says what."""


def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]  # type: ignore[no-any-return]


def base_image(dockerfile: str) -> dict[str, Any]:
    """The base image as a component. Raises `SbomError` unless it is pinned by digest."""
    match = _BASE.search(dockerfile)
    if match is None:
        raise SbomError("Dockerfile: ARG BASE_IMAGE names no image by digest (name:tag@sha256:...)")
    name, tag, digest = match["name"], match["tag"] or "", match["digest"]
    short = name.rpartition("/")[2]
    purl = f"pkg:oci/{short}@{digest.replace(':', '%3A')}?repository_url={name}" + (f"&tag={tag}" if tag else "")
    return {
        "type": "container",
        "bom-ref": purl,
        "name": name,
        "version": tag,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
    }


def component(package: Package, licences: Licences) -> dict[str, Any]:
    """One package."""
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(package),
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "licenses": [{"expression": licences.of(package.name)}],
    }
    properties = [{"name": "oncelog:file-sha256", "value": value} for value in sorted(package.hashes)]
    if package.marker:
        properties.insert(0, {"name": "oncelog:marker", "value": package.marker})
    return {**made, "properties": properties}


def _reference(package: Package) -> str:
    return package.purl


def wheel_packages() -> list[Package]:
    """What the wheel and its extras bring, all but those for development."""
    extras = project()["optional-dependencies"]
    asked = list(project()["dependencies"])
    for name, requirements in extras.items():
        if name != "dev":
            asked += requirements
    roots = {normalised(match[0]) for line in asked if (match := _REQUIRED_NAME.match(line))} - {"oncelog"}
    return lockfiles.closure(lockfiles.read(LOCKS / "dev.txt"), roots)


def image_packages() -> list[Package]:
    """What the Dockerfile installs."""
    return sorted(lockfiles.read(LOCKS / "server.txt"), key=lambda p: (p.name, p.version))


def document(kind: str, packages: Sequence[Package], licences: Licences, base: dict[str, Any] | None) -> dict[str, Any]:
    """The whole list: `kind` is container or library."""
    name, version = project()["name"], project()["version"]
    own = {
        "type": kind,
        "bom-ref": f"{name}-{kind}@{version}",
        "name": name,
        "version": version,
        "licenses": [{"expression": project()["license"]}],
    }
    components = [component(package, licences) for package in packages] + ([base] if base else [])
    made: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": _dependencies(own["bom-ref"], packages, base),
        "compositions": [{"aggregate": "complete", "assemblies": [own["bom-ref"]]}],
    }
    if base:
        made["compositions"].append({"aggregate": "unknown", "assemblies": [base["bom-ref"]]})
    made["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps(made, sort_keys=True))}"
    return made


def _dependencies(own: str, packages: Sequence[Package], base: dict[str, Any] | None) -> list[dict[str, Any]]:
    direct = [_reference(p) for p in packages if "oncelog" in p.needed_by] + ([base["bom-ref"]] if base else [])
    rows = [{"ref": own, "dependsOn": sorted(direct)}]
    for package in packages:
        needs = sorted(_reference(other) for other in packages if package.name in other.needed_by)
        rows.append({"ref": _reference(package), "dependsOn": needs})
    return rows + ([{"ref": base["bom-ref"], "dependsOn": []}] if base else [])


def documents() -> dict[str, dict[str, Any]]:
    """File name to list. Raises `SbomError`, `LockError` or `LicenceError`."""
    licences = Licences.read()
    base = base_image((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return {
        "oncelog-image.cdx.json": document("container", image_packages(), licences, base),
        "oncelog-wheel.cdx.json": document("library", wheel_packages(), licences, None),
    }


def main(arguments: list[str] | None = None) -> int:
    """Writes the lists."""
    parser = argparse.ArgumentParser(prog="make sbom", description="List what is in the image and the wheel.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "sbom")
    out = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    for name, made in documents().items():
        (out / name).write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"sbom: {out / name}: {len(made['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
