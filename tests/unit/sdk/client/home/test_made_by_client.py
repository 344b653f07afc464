"""Whoever makes a consumer as other clients have it is told how it is made here, and no secret is repeated."""

from __future__ import annotations

import pytest

import oncelog
from oncelog import sync


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (oncelog.Consumer, ("orders",), "oncelog.Client('a:1').consumer('orders', ...)"),
        (oncelog.Producer, (), "oncelog.Client('a:1').producer(...)"),
        (sync.Consumer, ("orders",), "oncelog.SyncClient('a:1').consumer('orders', ...)"),
        (sync.Producer, (), "oncelog.SyncClient('a:1').producer(...)"),
    ],
)
def test_the_spelling_of_other_clients_is_answered_with_ours(kind: type, given: tuple[str, ...], said: str) -> None:
    """Regression: a bare TypeError from `__init__`."""
    with pytest.raises(TypeError) as caught:
        kind(*given, bootstrap_servers="a:1", password="secret")
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_more_options_no_dots_are_shown() -> None:
    with pytest.raises(TypeError, match=r"oncelog\.Client\('a:1'\)\.producer\(\)$"):
        oncelog.Producer(bootstrap_servers="a:1")


def test_of_what_was_given_only_topics_are_repeated() -> None:
    with pytest.raises(TypeError) as caught:
        oncelog.Consumer("orders", {"password": "secret"}, b"secret")  # type: ignore[arg-type]
    assert str(caught.value).endswith("oncelog.Client('localhost:9092').consumer('orders')")
