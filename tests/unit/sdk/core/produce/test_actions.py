"""The shell of a producer knows every action that the core may ask for, and the facts are what the client has."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from oncelog.client.produce.facts import ClientFacts
from oncelog.client.produce.sender import Sender
from oncelog.core.produce.accumulator import Batch
from oncelog.core.produce.actions import Action, Facts, Send
from tests.unit.sdk.core.produce.known_facts import P0, KnownFacts


@pytest.mark.parametrize("action", get_args(Action), ids=lambda action: action.__name__)
def test_the_sender_has_a_case_for_every_action(action: type) -> None:
    assert f"case {action.__name__}(" in inspect.getsource(Sender._do)


@pytest.mark.parametrize("facts", [ClientFacts, KnownFacts])
def test_the_facts_are_complete(facts: type) -> None:
    asked = {name for name in vars(Facts) if not name.startswith("_")}
    assert asked <= set(vars(facts))


def test_a_call_counts_the_bytes_of_its_batches() -> None:
    send = Send("b:1")
    for encoded in (b"12", b"345"):
        batch = Batch(P0, "orders", 0, 0)
        batch.seal(encoded)
        send.add(batch)
    assert (send.size_bytes, len(send.batches)) == (5, 2)
