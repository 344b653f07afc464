"""Every error has advice of its own, in whole sentences, that names verbs which exist."""

from __future__ import annotations

import re

from oncelog import errors
from oncelog_cli.main import build_parser
from oncelog_cli.support.advice import ADVICE, INSTEAD, WHAT_TO_DO, what_to_do
from scripts.gen_cli_docs import verbs


def test_every_code_has_advice_of_its_own() -> None:
    assert set(ADVICE) | set(INSTEAD) == set(errors.ErrorCode)
    assert set(ADVICE) & set(INSTEAD) == set()
    assert [code.name for code, text in {**ADVICE, **INSTEAD}.items() if not text.endswith(".")] == []


def test_advice_names_verbs_that_exist() -> None:
    named = {verb for text in ADVICE.values() for verb in re.findall(r"`oncelog ([a-z -]+)`", text)}
    assert len(named) > 5
    assert named <= {parser.prog.removeprefix("oncelog ") for parser in verbs(build_parser())}


def test_the_advice_for_the_action_comes_first() -> None:
    said = what_to_do(errors.ErrorCode.NOT_ENOUGH_REPLICAS, errors.ErrorAction.RETRY)
    assert said.startswith("Send the same request again after a pause;")
    assert said.endswith("`min_insync_replicas` if you can afford it.")


def test_every_action_says_what_to_do() -> None:
    assert set(WHAT_TO_DO) == set(errors.ErrorAction)
