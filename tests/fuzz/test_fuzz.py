"""The kept corpus breaks no promise of any parser, and the fuzzer finds what is broken."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.engine import ROOT, Campaign, inputs_in, judge
from tests.fuzz.run import CORPUS
from tests.fuzz.target import Target, all_targets

TARGETS = all_targets()
INPUTS = 150
"""Of the short run of each target."""


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """What is refused is told to operators; not here, thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_the_kept_corpus_breaks_no_promise(target: Target) -> None:
    for data in [*target.seeds(), *inputs_in(CORPUS / target.name)]:
        failure = judge(target, data).failure
        assert failure is None, failure.says


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_a_short_run_breaks_no_promise(target: Target) -> None:
    campaign = Campaign(target, seed=7)
    for failure in campaign.run():
        assert failure is None, failure.says
        if campaign.inputs >= INPUTS:
            break
    assert len(campaign.found) > 1, "it meets more than one place"


def test_the_same_seed_tries_the_same_inputs() -> None:
    tried = []
    for _ in range(2):
        campaign = Campaign(TARGETS["control"], seed=3)
        for _ in campaign.run():
            if campaign.inputs >= 500:
                break
        tried.append(campaign.found)
    assert tried[0] == tried[1]


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} <= set(TARGETS)
    assert sum(path.stat().st_size for path in files) < 300_000


@pytest.mark.parametrize(
    ("name", "kind"),
    [("planted_bound", "memory"), ("planted_hang", "hang"), ("planted_crash", "crash"), ("planted_death", "death")],
)
def test_a_planted_bug_is_found_kept_and_can_be_tried_again(name: str, kind: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.fuzz.run", "--plugin", "tests.fuzz.planted", "--target", name]
    run = [*words, "--seconds", "600", "--first", "--format", "json", "--corpus", str(tmp_path)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 1, done.stderr
    (report,) = json.loads(done.stdout)
    (path,) = [Path(file) for file in report["files"]]
    assert path.name.startswith(f"{kind}-"), done.stderr
    assert f"again: python -m tests.fuzz.run --target {name} --input {path}" in done.stderr
    if kind in ("crash", "memory"):  # the others would take this process along
        again = subprocess.run(
            [*words, "--input", str(path)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
        )
        assert again.returncode == 1, again.stderr
        assert kind in again.stderr
