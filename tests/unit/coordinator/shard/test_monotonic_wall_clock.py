"""Times that stand in records never step back within one process, whatever is done to the machine's clock (W20)."""

from __future__ import annotations

from oncelog_coordinator.shard.monotonic_wall_clock import SteadyClock


class Machine:
    """A wall clock that is set by hand."""

    def __init__(self, wall_ms: int, up_ms: int) -> None:
        self.wall_ms = wall_ms
        self.up_ms = up_ms

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.up_ms

    async def sleep(self, _ms: float) -> None:
        raise AssertionError("nobody waits here")


def test_it_begins_with_the_time_of_day_and_goes_on_with_what_has_passed() -> None:
    machine = Machine(1_000_000, 50)
    clock = SteadyClock(machine)
    assert clock.now_ms() == 1_000_000
    machine.up_ms += 30
    assert clock.now_ms() == 1_000_030


def test_a_step_of_the_machines_clock_changes_nothing() -> None:
    machine = Machine(1_000_000, 50)
    clock = SteadyClock(machine)
    for stepped_ms in (0, 9_000_000):
        machine.wall_ms = stepped_ms
        machine.up_ms += 10
    assert clock.now_ms() == 1_000_020


def test_the_next_process_begins_with_the_time_of_day_of_then() -> None:
    machine = Machine(1_000_000, 50)
    SteadyClock(machine)
    machine.wall_ms = 900_000
    assert SteadyClock(machine).now_ms() == 900_000
