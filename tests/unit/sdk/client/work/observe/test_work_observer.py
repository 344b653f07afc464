"""A worker that is not traced works in silence."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.client.work.observe.work_observer import WorkObserver
from oncelog.core.work.settlements import Verdict


def test_the_port_itself_does_nothing_and_lets_errors_through() -> None:
    observer, message = WorkObserver(), None
    given: Any = message
    observer.polled([given], observer.poll_begins())
    with pytest.raises(KeyError), observer.processing(given):
        raise KeyError
    with pytest.raises(KeyError), observer.settling([given], Verdict.ACK):
        raise KeyError
