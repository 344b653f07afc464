"""The completion scripts know what the parsers know; bash's is run by a real bash."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from oncelog_cli.main import build_parser
from oncelog_cli.support.completion import SHELLS, Level, levels, script

BASH = shutil.which("bash")


@pytest.fixture(scope="module")
def tree() -> list[Level]:
    return levels(build_parser())


def complete(words: list[str], tree: list[Level], folder: Path) -> list[str]:
    """What bash offers after these words; the last one is being typed."""
    path = folder / "completion.bash"
    path.write_text(script("bash", tree))
    quoted = " ".join(f"'{word}'" for word in ["oncelog", *words])
    ask = (
        f"source {path}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _oncelog; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run([str(BASH), "-c", ask], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="there is no bash on this machine")
@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["to"], ["topic"]),
        (["topic", "cr"], ["create"]),
        (["topic", "create", "--par"], ["--partitions"]),
        (["topic", "create", "orders", "--format", "j"], ["json"]),
        (["--format", "json", "cl"], ["cluster"]),
        (["completion", "z"], ["zsh"]),
        (["verify", "--abort"], ["--abort-rate"]),
        (["topic", "create", "--partitions", ""], []),
    ],
)
def test_bash_completes_verbs_flags_and_values(
    words: list[str], some: list[str], tree: list[Level], tmp_path: Path
) -> None:
    assert complete(words, tree, tmp_path) == some


def test_every_verb_is_in_every_script(tree: list[Level]) -> None:
    paths = [level.path for level in tree if level.path]
    assert "topic create" in paths
    for shell in SHELLS:
        text = script(shell, tree)
        for path in paths:
            assert f'"{path}"' in text, (shell, path)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_accept_their_script(shell: str, tree: list[Level], tmp_path: Path) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} on this machine")
    path = tmp_path / "script"
    path.write_text(script(shell, tree))
    subprocess.run([found, "-n", str(path)], check=True, timeout=30)
