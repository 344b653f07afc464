"""The errors of work that happens once say what to do, and are caught with the kinds that programs know."""

from __future__ import annotations

import pickle

import pytest

from oncelog import errors
from oncelog.client.once.refusals import LeaseHeldError, OnceTableError, WorkFencedError


@pytest.mark.parametrize(
    ("kind", "base", "advice"),
    [
        (LeaseHeldError, errors.RetriableError, "wait until it ends"),
        (WorkFencedError, errors.AbortableTransactionError, "Go on with"),
        (OnceTableError, errors.ConfigError, "create it with"),
    ],
)
def test_an_error_says_what_to_do(kind: type[errors.OncelogError], base: type, advice: str) -> None:
    assert issubclass(kind, base)
    assert advice in kind().message
    assert type(pickle.loads(pickle.dumps(kind("said")))) is kind


def test_a_code_of_the_wire_still_means_the_error_of_the_wire() -> None:
    for kind in (LeaseHeldError, WorkFencedError, OnceTableError):
        assert type(errors.error_for(int(kind.code), "said")) is kind.__base__
