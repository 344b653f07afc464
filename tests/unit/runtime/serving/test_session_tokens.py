"""A token shows to whom a producer id or a session was given, and nothing else does."""

from __future__ import annotations

import itertools

import pytest

from oncelog.errors import CoordinatorNotAvailableError, TransactionalIdAuthorizationError
from oncelog_runtime.metadata import cluster_keys
from oncelog_runtime.metadata.cluster_keys import SessionKey, producer_id_ceiling, producer_id_floor
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import Change, KeyValue, Listing
from oncelog_runtime.serving.session_tokens import SessionTokens

KEY, OTHER_KEY = SessionKey(bytes(range(32))), SessionKey(bytes(32))
NOW_MS = 1_700_000_000_000


def tokens(key: SessionKey | None = KEY, *, required: bool = True) -> SessionTokens:
    view = ClusterView()
    view.listed(Listing((KeyValue(cluster_keys.SESSION_KEY, key.encode(), 3),) if key else (), 3))
    return SessionTokens(view, required=required)


def test_each_id_epoch_kind_and_key_has_a_token_of_its_own() -> None:
    one, other = tokens(), tokens(OTHER_KEY)
    made = [
        one.of_producer(7),
        one.of_producer(8),
        one.of_session("t", 7, 0),
        one.of_session("t", 7, 1),
        one.of_session("t", 8, 0),
    ]
    made += [one.of_session("t", 7, -1), one.of_session("u", 7, 0), other.of_producer(7), other.of_session("t", 7, 0)]
    assert len(set(made)) == len(made)
    assert all(KEY.key[:8] not in token for token in made)
    assert made[:5] == [
        tokens().of_producer(7),
        tokens().of_producer(8),
        *(tokens().of_session("t", *at) for at in ((7, 0), (7, 1), (8, 0))),
    ], "any process makes and checks the same"


def test_only_the_right_token_opens() -> None:
    guard = tokens()
    guard.require_producer(7, guard.of_producer(7))
    guard.require_session("t", 7, 1, guard.of_session("t", 7, 1))
    guard.require_any_session("t", 7, guard.of_session("t", 7, 1))
    right = guard.of_session("t", 7, 1)
    wrong = [
        b"",
        b"x",
        right[:-1],
        right + b"x",
        guard.of_session("t", 7, 0),
        guard.of_session("t", 8, 1),
        guard.of_producer(7),
    ]
    wrong += [tokens(OTHER_KEY).of_session("t", 7, 1), guard.of_session("u", 7, 1), guard.of_session("", 7, 1)]
    for token in wrong:
        with pytest.raises(TransactionalIdAuthorizationError):
            guard.require_session("t", 7, 1, token)
    for token in [b"", b"x", right[:-1], b"\x00\x00\x00\x09" + right[4:], *wrong[5:]]:
        with pytest.raises(TransactionalIdAuthorizationError):
            guard.require_any_session("t", 7, token)


def test_nothing_is_asked_unless_it_is_required() -> None:
    guard = tokens(required=False)
    guard.require_producer(7, b"")
    guard.require_session("t", 7, 1, b"wrong")
    guard.require_any_session("t", 7, b"")
    assert guard.shown_run("run-1") == "run-1"


def test_a_process_that_does_not_know_the_key_asks_to_try_again() -> None:
    guard = tokens(None)
    assert guard.of_producer(7) == b""
    for token in (b"", b"x"):
        with pytest.raises(CoordinatorNotAvailableError) as refusal:
            guard.require_producer(7, token)
        assert refusal.value.retriable


def test_a_runs_name_is_not_told_where_it_opens_something() -> None:
    shown = [tokens().shown_run(run) for run in ("run-1", "run-2", "")]
    assert len(set(shown)) == 3
    assert not any(run in text for run, text in itertools.product(("run-1", "run-2"), shown))
    assert shown[2] == ""


def test_the_key_outlives_its_place_in_etcd_and_a_short_one_is_no_key() -> None:
    view = ClusterView()
    view.listed(Listing((KeyValue(cluster_keys.SESSION_KEY, KEY.encode(), 3),), 3))
    view.change(Change(cluster_keys.SESSION_KEY, None, 4))
    assert view.session_key == KEY.key
    assert view.revision_of(cluster_keys.SESSION_KEY) == 0, "so that a controller writes it back"
    view.change(Change(cluster_keys.SESSION_KEY, b'{"version": 1, "key": ""}', 5))
    assert view.session_key == KEY.key
    assert "key" not in repr(KEY).lower().replace("sessionkey", "")


def test_no_id_above_the_ceiling_was_handed_out() -> None:
    hour = 3_600_000
    assert producer_id_floor(NOW_MS + hour) < producer_id_ceiling(NOW_MS, -1), "an allocator's clock may be ahead"
    assert producer_id_ceiling(NOW_MS, -1) < producer_id_floor(NOW_MS + 25 * hour)
    far = producer_id_floor(NOW_MS + 1_000 * hour)
    assert producer_id_ceiling(NOW_MS, far) > far, "or was so, when the newest block was won"
