"""`make audit`: what the lock files and the Dockerfile bring in, looked at without a network.

    python scripts/audit.py [--database DIR-OR-ZIP]     also AUDIT_DB; an export of OSV for PyPI (https://osv.dev)

Looked at: every package pinned with SHA-256 hashes and no index named; the image runs what the tests ran on; licences; the base
image and the chart's images by digest; and, with a database, versions that an advisory names.
Rule 1: what could not be looked at is said each time, below what was: silence is never "no vulnerability".
Rule 2: a database without one advisory for PyPI is an error: it is the wrong one.
Rule 3: an advisory that does not concern us is accepted by its id and a reason in locks/accepted.toml, and is still shown.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.version import InvalidVersion, Version

from scripts import lockfiles
from scripts.licences import LicenceError, Licences
from scripts.lockfiles import ROOT, LockError, Package, normalised

_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")
_SAYS_NOTHING: Final = ("", "UNKNOWN")


@dataclass(slots=True)
class Findings:
    """What the audit says."""

    problems: list[str] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)
    not_looked_at: list[str] = field(default_factory=list)


# ---------------------------------------------------------------- locks


def check_locks(locks: Mapping[str, list[Package]]) -> Iterator[str]:
    """Problems of the lock files themselves; that nothing else stands in them was seen when they were read."""
    for name, packages in locks.items():
        if not packages:
            yield f"{name} names no package"
        for package in packages:
            if not package.hashes:
                yield f"{name}: {package.name} {package.version} has no hash"
    tested = {(package.name, package.version) for package in locks.get("dev.txt", [])}
    for package in locks.get("server.txt", []):
        if (package.name, package.version) not in tested:
            yield f"server.txt: {package.name} {package.version} is not what the tests run on (dev.txt)"


def check_licences(locks: Mapping[str, list[Package]], licences: Licences) -> Iterator[str]:
    """Problems of licences by the table, and entries of it that nobody needs."""
    names = {package.name for packages in locks.values() for package in packages}
    for name in sorted(names):
        try:
            if not licences.allows(name):
                yield f"{name}: its licence {licences.of(name)} is not allowed (locks/licences.toml)"
        except LicenceError as error:
            yield str(error)
    for name in sorted((licences.packages.keys() | licences.exceptions.keys()) - names):
        yield f"locks/licences.toml names {name}, which no lock file has"


def check_installed(licences: Licences, installed: Mapping[str, str]) -> Iterator[str]:
    """Where a package that is installed states an SPDX expression, the table says the same."""
    for name, said in sorted(installed.items()):
        if said not in _SAYS_NOTHING and name in licences.packages and licences.of(name) != said:
            yield f"{name} says it is {said}, locks/licences.toml says {licences.of(name)}"


def installed_licences() -> dict[str, str]:
    """Name -> `License-Expression` of what is installed here."""
    return {
        normalised(one.metadata["Name"]): (one.metadata.get("License-Expression") or "").strip()
        for one in importlib.metadata.distributions()
        if one.metadata["Name"]
    }


# ---------------------------------------------------------------- images


def check_images(dockerfile: str, values: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(problems, what is not pinned by us): the base image must be, foreign images of the chart are the operator's."""
    found = re.search(r"^ARG BASE_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    problems = []
    if found is None or not _DIGEST.search(found[1]):
        problems.append("Dockerfile: BASE_IMAGE is not pinned by digest (name:tag@sha256:...)")
    loose = [
        f"{values[key]['image']['repository']}:{values[key]['image']['tag']} ({key}.image.digest)"
        for key in ("etcd", "jaeger")
        if not values[key]["image"].get("digest")
    ]
    return problems, loose


# ---------------------------------------------------------------- advisories


@dataclass(frozen=True, slots=True)
class Advisory:
    """An entry of the database, as far as it is about one package."""

    id: str
    aliases: tuple[str, ...]
    package: str
    summary: str
    affected: tuple[Mapping[str, Any], ...]

    def names(self, version: str) -> bool:
        """It is about this version."""
        return any(_is_affected(Version(version), version, part) for part in self.affected)


def _is_affected(version: Version, text: str, part: Mapping[str, Any]) -> bool:
    if text in part.get("versions", ()):
        return True
    for span in part.get("ranges", ()):
        if span.get("type") == "ECOSYSTEM" and _in_range(version, span.get("events", ())):
            return True
    return False


def _in_range(version: Version, events: Iterable[Mapping[str, str]]) -> bool:
    """Events in the order of their versions: from `introduced` on, up to before `fixed`, or up to and with `last_affected`."""
    inside = False
    for kind, at in sorted(
        ((kind, at) for event in events for kind, at in event.items()), key=lambda pair: _order(*pair)
    ):
        if kind == "introduced" and (at == "0" or version >= _version(at)):
            inside = True
        elif (kind == "fixed" and version >= _version(at)) or (kind == "last_affected" and version > _version(at)):
            inside = False
    return inside


def _order(kind: str, at: str) -> tuple[Version, int]:
    return _version(at), ("introduced", "last_affected", "fixed").index(kind) if kind != "limit" else 3


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def read_database(path: Path) -> tuple[list[Advisory], str]:
    """(advisories for PyPI, the newest change). A folder of JSON files, or a zip of them. Raises `ValueError`."""
    found: list[Advisory] = []
    newest = ""
    for entry in _entries(path):
        if entry.get("withdrawn"):
            continue
        newest = max(newest, str(entry.get("modified", "")))
        by_package: dict[str, list[Mapping[str, Any]]] = {}
        for part in entry.get("affected", ()):
            package = part.get("package", {})
            if package.get("ecosystem") == "PyPI":
                by_package.setdefault(normalised(package["name"]), []).append(part)
        for name, parts in by_package.items():
            aliases = tuple(entry.get("aliases", ()))
            found.append(Advisory(entry["id"], aliases, name, entry.get("summary", ""), tuple(parts)))
    if not found:
        raise ValueError(f"{path} holds no advisory for PyPI: is it an export of OSV?")
    return found, newest


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield json.loads(file.read_text(encoding="utf-8"))
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def check_versions(
    locks: Mapping[str, list[Package]], advisories: Iterable[Advisory], accepted: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """(problems, those that were accepted), each one sentence."""
    by_name: dict[str, list[Advisory]] = {}
    for advisory in advisories:
        by_name.setdefault(advisory.package, []).append(advisory)
    where: dict[tuple[str, str], list[str]] = {}
    for lock, packages in locks.items():
        for package in packages:
            where.setdefault((package.name, package.version), []).append(lock)
    problems, known = [], []
    for (name, version), files in sorted(where.items()):
        for advisory in by_name.get(name, []):
            if not advisory.names(version):
                continue
            sentence = f"{name} {version} ({', '.join(files)}): {advisory.id} {advisory.summary}".strip()
            reason = next((accepted[one] for one in (advisory.id, *advisory.aliases) if one in accepted), None)
            if reason is None:
                problems.append(sentence)
            else:
                known.append(f"{sentence}; accepted: {reason}")
    return problems, known


# ---------------------------------------------------------------- all of it


def audit(database: Path | None) -> Findings:
    """Everything. Raises `LockError` for a lock file that says what it must not."""
    findings = Findings()
    locks = lockfiles.all_locks()
    count = sum(map(len, locks.values()))
    findings.problems += check_locks(locks)
    findings.looked_at.append(f"{count} pins in {len(locks)} lock files: versions, SHA-256 hashes, no index")
    licences = Licences.read()
    installed = installed_licences()
    findings.problems += [*check_licences(locks, licences), *check_installed(licences, installed)]
    compared = sum(1 for name, said in installed.items() if said not in _SAYS_NOTHING and name in licences.packages)
    findings.looked_at.append(f"{len(licences.packages)} licences, {compared} of them compared with what is installed")
    values = yaml.safe_load((ROOT / "helm" / "oncelog" / "values.yaml").read_text(encoding="utf-8"))
    problems, loose = check_images((ROOT / "Dockerfile").read_text(encoding="utf-8"), values)
    findings.problems += problems
    findings.looked_at.append("the base image's digest")
    findings.not_looked_at += [f"what is in {image}: it is not pinned by digest" for image in loose]
    findings.not_looked_at.append("the packages of the base image: ask a scanner of images")
    if database is None:
        findings.not_looked_at.append(
            "known vulnerabilities: no database (AUDIT_DB=folder or zip of OSV's export for PyPI)"
        )
        return findings
    accepted = tomllib.loads((ROOT / "locks" / "accepted.toml").read_text(encoding="utf-8")).get("accepted", {})
    advisories, newest = read_database(database)
    problems, known = check_versions(locks, advisories, accepted)
    findings.problems += problems
    findings.looked_at.append(f"{len(advisories)} advisories, the newest of {newest or 'no date'}")
    findings.looked_at += known
    return findings


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 with problems."""
    parser = argparse.ArgumentParser(prog="make audit", description="Look at what the lock files bring in.")
    parser.add_argument("--database", default=os.environ.get("AUDIT_DB", ""), help="OSV advisories: a folder or a zip")
    args = parser.parse_args(arguments)
    try:
        findings = audit(Path(args.database) if args.database else None)
    except (LockError, OSError, ValueError, zipfile.BadZipFile) as error:
        print(f"audit: {error}", file=sys.stderr)
        return 1
    for line in findings.looked_at:
        print(f"  looked at      {line}")
    for line in findings.not_looked_at:
        print(f"  NOT looked at  {line}")
    for line in findings.problems:
        print(f"  PROBLEM        {line}")
    print(f"audit: {len(findings.problems)} problems, {len(findings.not_looked_at)} things not looked at")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
