"""Every planted bug is caught by the scripts of its hole, each of which passes without it."""

from __future__ import annotations

import logging

import pytest

from tests.simulation.planted import try_scripts
from tests.simulation.planted_bugs import Plant, all_plants

REQUIRED = {1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 17, 21}


@pytest.mark.parametrize("planted", all_plants(), ids=lambda planted: f"hole-{planted.hole}")
def test_a_planted_bug_is_caught_by_its_script(planted: Plant) -> None:
    logging.disable(logging.CRITICAL)
    try:
        catch = try_scripts(planted)
    finally:
        logging.disable(logging.NOTSET)
    assert catch.healthy, "a script fails without the plant"
    assert len(catch.scripts) == len(planted.scripts), f"only {catch.scripts} noticed: {planted.rule}"


def test_the_rules_that_must_be_planted_are() -> None:
    assert {planted.hole for planted in all_plants()} >= REQUIRED
