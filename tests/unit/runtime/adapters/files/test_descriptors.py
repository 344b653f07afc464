"""The limit of open files is lifted as far as it may be, and what is in force is told."""

from __future__ import annotations

import resource

import pytest

from oncelog_runtime.adapters.files.descriptors import raise_limit


class Limits:
    """Stands in for the kernel's."""

    def __init__(self, soft: int, hard: int, error: type[Exception] | None = None) -> None:
        self.now, self.error = (soft, hard), error

    def get(self, _kind: int) -> tuple[int, int]:
        return self.now

    def set(self, _kind: int, limits: tuple[int, int]) -> None:
        if self.error is not None:
            raise self.error("no")
        self.now = limits


@pytest.mark.parametrize(
    ("limits", "in_force", "told"),
    [
        (Limits(1_024, 4_096), (4_096, 4_096), 4_096),
        (Limits(4_096, 4_096, AssertionError), (4_096, 4_096), 4_096),
        (Limits(1_024, resource.RLIM_INFINITY), (resource.RLIM_INFINITY, resource.RLIM_INFINITY), 0),
        (Limits(1_024, 4_096, OSError), (1_024, 4_096), 1_024),
        (Limits(1_024, 4_096, ValueError), (1_024, 4_096), 1_024),
    ],
    ids=["lifted", "already", "without limit", "the system refuses", "the system refuses the value"],
)
def test_the_limit_is_lifted_as_far_as_the_system_lets_us(
    monkeypatch: pytest.MonkeyPatch, limits: Limits, in_force: tuple[int, int], told: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    assert raise_limit() == told
    assert limits.now == in_force
