"""Every event of a shard runtime reaches all observers in their order; the first one reports bugs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog.errors import InternalServerError, OncelogError, TxnAbortedError
from oncelog_coordinator.core.decision import Command
from oncelog_coordinator.shard.shard_observer import Observed, ShardObserver, ShardObservers
from tests.unit.coordinator.shard_host import INIT


class Noting(ShardObserver):
    """Notes its events under its name."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self._name = name
        self._noted = noted

    def _note(self, event: str) -> None:
        self._noted.append(f"{self._name} {event}")

    def queued(self, seen: Observed) -> None:
        self._note("queued")

    def refused(self, error: OncelogError) -> None:
        self._note("refused")

    def bug(self, error: Exception, shard: str, command: str) -> OncelogError:
        self._note(f"bug in {command} of {shard}")
        return InternalServerError(reason=self._name)

    def decided(self, seen: Observed, shard: str, command: Command[object]) -> None:
        self._note("decided")

    def appending(self, observed: Sequence[Observed], commands: int, records: int) -> None:
        self._note(f"appending {len(observed)} {commands} {records}")

    def causes(self, seen: Observed) -> None:
        self._note("causes")

    def committed(self, observed: Sequence[Observed]) -> None:
        self._note("committed")

    def failed(self, observed: Sequence[Observed], error: OncelogError) -> None:
        self._note("failed")

    def life_failed(self, kind: str) -> None:
        self._note(f"life failed {kind}")


def test_all_observers_are_called_in_their_order() -> None:
    noted: list[str] = []
    seen = Observed()
    both = ShardObservers(Noting("a", noted), ShardObserver(), Noting("b", noted))
    both.queued(seen)
    both.refused(TxnAbortedError())
    both.decided(seen, "txn-1", INIT)
    both.appending([seen], 2, 3)
    both.causes(seen)
    both.committed([seen])
    both.failed([seen], TxnAbortedError())
    both.life_failed("txn")
    events = ("queued", "refused", "decided", "appending 1 2 3", "causes", "committed", "failed", "life failed txn")
    assert noted == [f"{name} {event}" for event in events for name in ("a", "b")]


def test_the_first_observer_reports_bugs() -> None:
    noted: list[str] = []
    error = ShardObservers(Noting("a", noted), Noting("b", noted)).bug(ValueError(), "txn-1", "Join")
    assert error.context["reason"] == "a"
    assert noted == ["a bug in Join of txn-1"]


def test_without_observers_a_bug_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    error = ShardObserver().bug(ValueError("x"), "txn-1", "Join")
    assert isinstance(error, InternalServerError)
    assert "Join was not decided" in caplog.text
