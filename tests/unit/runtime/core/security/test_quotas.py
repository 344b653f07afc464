"""What may be written as a quota, and which one holds for whom."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog_runtime.core.quota import UNLIMITED, QuotaKind
from oncelog_runtime.core.security.acl import ANONYMOUS
from oncelog_runtime.core.security.quotas import (
    LIMIT_MAX,
    Quota,
    QuotaTable,
    check_quota,
    check_subject,
    kind_of,
    quota_of,
)
from oncelog_runtime.security.stored import Stored, encode, quota_key

K = QuotaKind


def test_each_kind_falls_back_to_the_default_by_itself() -> None:
    table = QuotaTable(
        [
            Quota("User:*", {K.REQUESTS: 100, K.FETCH_BYTES: 7}),
            Quota("User:ann", {K.REQUESTS: 5, K.FETCH_BYTES: UNLIMITED}),
            Quota("Address:*", {K.CONNECTIONS: 1}),
        ]
    )
    assert table.limits_of("User:ann") == {K.REQUESTS: 5}
    assert table.effective("User:ann")[K.FETCH_BYTES] == (UNLIMITED, "User:ann")
    assert table.limits_of("User:bob") == {K.REQUESTS: 100, K.FETCH_BYTES: 7}
    assert table.limits_of("Address:10.0.0.1") == {K.CONNECTIONS: 1}


@pytest.mark.parametrize(
    "wrong", ["ann", "User:", ANONYMOUS, "User:a*", "Address:", "Address:10.0.0.0/8", "Address:010.0.0.1"]
)
def test_subjects_that_would_never_count_are_refused(wrong: str) -> None:
    with pytest.raises(errors.InvalidRequestError):
        check_subject(wrong)


def test_a_stored_quota_comes_back_without_what_only_a_newer_version_knows() -> None:
    quota, stored = Quota("User:ann", {K.REQUESTS: 5}), Stored()
    values = quota.as_dict()
    values["limits"]["records_per_s"] = 9
    stored.enter(quota_key("User:ann"), encode(values), 1)
    stored.enter(quota_key("User:bad"), encode({"subject": "User:bad", "limits": {"requests_per_s": 0}}), 1)
    assert list(stored.quotas.values()) == [quota]
    assert quota_of(quota.as_dict()) == quota


@pytest.mark.parametrize("subject", ["User:ann", "User:*", "Address:10.0.0.1", "Address:2001:db8::1", "Address:*"])
def test_subjects_that_count(subject: str) -> None:
    assert check_subject(subject) == subject


@pytest.mark.parametrize(
    ("limit", "fine"),
    [(1, True), (LIMIT_MAX, True), (UNLIMITED, True), (0, False), (-2, False), (LIMIT_MAX + 1, False)],
)
def test_a_limit_lets_something_through(limit: int, fine: bool) -> None:
    quota = Quota("User:ann", {K.REQUESTS: limit})
    if fine:
        assert check_quota(quota) == quota
        return
    with pytest.raises(errors.InvalidRequestError, match="oncelog acl"):
        check_quota(quota)


def test_who_names_no_kind_is_told_which_there_are() -> None:
    assert kind_of("connections") is K.CONNECTIONS
    with pytest.raises(errors.InvalidRequestError, match="requests_per_s"):
        kind_of("speed")


def test_a_quota_that_says_nothing_is_none_and_a_subject_has_one_key() -> None:
    assert not QuotaTable([Quota("User:ann", {})])
    assert QuotaTable([Quota("User:ann", {K.REQUESTS: UNLIMITED})])
    assert Quota("User:ann", {}).key == Quota("User:ann", {K.REQUESTS: 1}).key != Quota("User:bob", {}).key
