"""Distributes the tests of a run over processes (`pytest -n 2`).

Rule 1: tests that start real processes run one after the other in one of them: two clusters at once would wait for each
        other's processor. All other files run beside it, each as a whole, in its order.
Rule 2: what a test wrote reaches the process that prints it, whatever the characters.
"""

from __future__ import annotations

from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

REAL_PROCESSES: Final = frozenset(("compatibility", "contracts", "hostile_inputs", "integration"))
"""Folders of tests that start brokers, coordinators, etcd or Spark."""


def together(nodeid: str) -> str:
    """Returns what the test shares with those that run in the same process as it."""
    file = nodeid.partition("::")[0]
    return "real processes" if file.split("/")[1] in REAL_PROCESSES else file


class Schedule(LoadScopeScheduling):
    """Which tests run in one process, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


def encodable(data: Any) -> Any:
    """Returns a report's data with every character that UTF-8 does not have (half a surrogate pair) as an escape."""
    if isinstance(data, str):
        return data.encode(errors="backslashreplace").decode()
    if isinstance(data, dict):
        return {encodable(key): encodable(value) for key, value in data.items()}
    if isinstance(data, list):
        return [encodable(item) for item in data]
    if isinstance(data, tuple):
        return tuple(encodable(item) for item in data)
    return data
