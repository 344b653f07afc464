"""An error is one sentence and named values; what a stranger chose is bounded and printable; a family says what to do."""

from __future__ import annotations

import pytest

from oncelog.errors import ErrorAction, NotLeaderError, OncelogError, ProducerFencedError, printable
from oncelog.errors.base import AbortableTransactionError, CallerError, FatalProducerError, RetriableError


def test_without_a_message_the_meaning_of_the_class_is_told() -> None:
    assert str(ProducerFencedError()) == "A newer session of this transactional id exists; this one is finished."


def test_named_values_come_as_text_in_the_order_of_their_names() -> None:
    error = NotLeaderError("moved", partition=3, leader=None)
    assert error.context == {"leader": "None", "partition": "3"}
    assert str(error) == "moved (leader=None, partition=3)"
    assert (error.message, error.retry_after_ms, error.go_to) == ("moved", 0, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü", "plain ü"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202e", "\\u202e"),
        ("", ""),
    ],
    ids=ascii,
)
def test_no_terminal_and_no_log_obeys_a_text(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert NotLeaderError("m", why=text).context["why"] == shown


@pytest.mark.parametrize(("length", "shown"), [(9, 9), (10, 10), (11, 13), (100_000, 13)])
def test_a_long_text_is_cut(length: int, shown: int) -> None:
    assert len(printable("x" * length, 10)) == shown


def test_what_escaping_makes_longer_is_cut_too() -> None:
    assert len(printable("\x00" * 1_000)) == 1_000 + len("...")
    assert len(NotLeaderError(why="\x00" * 100_000).context["why"]) == 1_003


@pytest.mark.parametrize(
    ("kind", "retriable", "requires_abort", "fatal"),
    [
        (RetriableError, True, False, False),
        (NotLeaderError, True, False, False),
        (AbortableTransactionError, False, True, False),
        (FatalProducerError, False, False, True),
        (CallerError, False, False, False),
    ],
)
def test_a_family_says_what_a_client_does_next(
    kind: type[OncelogError], retriable: bool, requires_abort: bool, fatal: bool
) -> None:
    error = kind("said")
    assert (error.retriable, error.requires_abort, error.fatal) == (retriable, requires_abort, fatal)


def test_who_looks_again_may_repeat_the_request_too() -> None:
    assert NotLeaderError().action is ErrorAction.REFRESH
    assert NotLeaderError().retriable
