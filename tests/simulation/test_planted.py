"""Plants apply, leave no trace, and are caught: holes and pairs by all of their scripts here, rules by `make planted`."""

from __future__ import annotations

import ast
import importlib
import logging
from pathlib import Path

import pytest

from tests.conformance.script import run_script
from tests.simulation import planted_bugs
from tests.simulation.planted import failing
from tests.simulation.planted_bugs import Plant, all_plants, edit, plant_named

_TESTS = Path(__file__).parents[1]
REQUIRED = {f"hole-{number:02}" for number in (1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 17, 21)}
QUICK = ("doubt-forgotten", "no-dir-sync", "equal-epoch-leads")
"""Rules whose loss nothing noticed before they had tests of their own."""
SCRIPTED = [planted for planted in all_plants() if planted.kind != "rule" and planted.scripts]
"""Their scripts are all conformance scripts, which run in this process."""


def _fails(script: str) -> bool:
    """Whether a conformance script fails now, in this process."""
    path, _, name = script.partition("::")
    module = importlib.import_module(f"tests.{path.removesuffix('.py').replace('/', '.')}")
    logging.disable(logging.CRITICAL)
    try:
        run_script(getattr(module, name))
    except (Exception, AssertionError, pytest.fail.Exception):
        return True
    finally:
        logging.disable(logging.NOTSET)
    return False


@pytest.mark.parametrize("planted", SCRIPTED, ids=lambda planted: planted.name)
def test_a_planted_hole_or_pair_is_caught_by_each_of_its_scripts(planted: Plant) -> None:
    assert not [script for script in planted.scripts if _fails(script)], "a script fails without the plant"
    with planted.planted():
        silent = [script for script in planted.scripts if not _fails(script)]
    assert not silent, f"did not notice: {planted.rule}"


@pytest.mark.parametrize("planted", all_plants(), ids=lambda planted: planted.name)
def test_every_plant_still_finds_what_it_changes(planted: Plant) -> None:
    with planted.planted():
        pass


@pytest.mark.parametrize("planted", all_plants(), ids=lambda planted: planted.name)
def test_every_script_of_a_plant_exists(planted: Plant) -> None:
    for script in planted.scripts:
        path, _, name = script.partition("::")
        tree = ast.parse((_TESTS / path).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"there is no {script}"


@pytest.mark.parametrize("name", QUICK)
def test_a_rule_that_nothing_noticed_is_noticed(name: str) -> None:
    scripts = plant_named(name).scripts
    assert not failing(scripts), "a script fails without the plant"
    assert failing(scripts, name) == set(scripts)


def test_a_plant_that_finds_nothing_to_change_fails_loudly() -> None:
    with pytest.raises(LookupError, match="0 times"), edit(planted_bugs, "plant_named", ("this is not there", ""))():
        pass


def test_a_plant_leaves_nothing_behind() -> None:
    class Kept:
        @property
        def rule(self) -> str:
            return "kept"

    before = Kept.rule
    with edit(Kept, "rule", ('"kept"', '"lost"'))():
        assert Kept().rule == "lost"
    assert Kept.rule is before


def test_the_rules_that_must_be_planted_are() -> None:
    assert {planted.name for planted in all_plants()} >= REQUIRED
