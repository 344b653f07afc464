"""CPU time and memory are read from the texts of /proc."""

from __future__ import annotations

import os
import time

import pytest

from bench.processes import CpuMeter, cpu_s_of, rss_bytes, rss_bytes_of


def test_a_name_with_spaces_and_brackets_moves_no_field() -> None:
    fields = ["S", *("0" for _ in range(10)), "250", "50", *("9" for _ in range(30))]
    per_s = os.sysconf("SC_CLK_TCK")
    assert cpu_s_of(f"17 (a ) (b) {' '.join(fields)}\n") == 300 / per_s


def test_memory_is_in_bytes_and_zero_after_the_end() -> None:
    assert rss_bytes_of("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n") == 2 << 20
    assert rss_bytes_of("Name:\tx\nState:\tZ (zombie)\n") == 0


def test_a_busy_process_takes_up_to_a_core_and_no_less_than_it_did() -> None:
    meter = CpuMeter({"me": os.getpid()})
    until_s = time.process_time() + 0.2
    while time.process_time() < until_s:
        pass
    assert 0 < meter.percent()["me"] <= 200
    assert rss_bytes(os.getpid()) > 1 << 20


def test_a_process_that_is_gone_is_no_zero() -> None:
    with pytest.raises(FileNotFoundError):
        CpuMeter({"gone": 1 << 30})
