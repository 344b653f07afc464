"""The caller's mistakes are never tried again; the one that a fork makes says how to make it right."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.errors import caller
from oncelog.errors.base import CallerError

KINDS = [kind for kind in vars(caller).values() if isinstance(kind, type) and issubclass(kind, CallerError)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not CallerError])
def test_nothing_is_repeated_aborted_or_given_up_for_a_callers_mistake(kind: type[CallerError]) -> None:
    error = kind()
    assert (error.retriable, error.requires_abort, error.fatal) == (False, False, False)
    assert error.message.endswith((".", "`."))


def test_a_forked_child_is_told_where_to_make_its_client() -> None:
    error = errors.ForkedClientError.inherited()
    assert type(error) is errors.ForkedClientError
    for word in ("make it in the child", "gunicorn", "Celery", "Airflow", "spawn"):
        assert word in error.message
