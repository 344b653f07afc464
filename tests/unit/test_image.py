"""The image is built from the lock files, holds every console script, and runs as nobody in particular."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_the_build_tries_every_console_script(script: str) -> None:
    (tried,) = re.findall(r"for command in (.*?);", DOCKERFILE)
    assert script in tried.split()


def test_packages_come_by_hash_and_from_no_index_after_that() -> None:
    for line in re.findall(r"pip .*?(?:install|wheel) .*", DOCKERFILE):
        assert "--require-hashes" in line or "--no-index" in line, line


def test_the_image_does_not_run_as_root_and_says_so_by_number() -> None:
    """Kubernetes can only check `runAsNonRoot` of a number."""
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)


def test_only_what_is_copied_goes_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source.split("/")[0]
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for source in sources.split()
    }
    assert copied == sent
