"""The table of idle partitions says the unit of each figure."""

from __future__ import annotations

import json

from bench.idle import Found, as_json, table


def found() -> Found:
    return Found(
        1_000,
        100,
        create_s=2.5,
        create_cpu_percent=[40.0, 41.0, 42.0],
        created_cpu_percent=[3.0, 4.0, 5.0],
        empty_cpu_percent=[1.0, 1.0, 1.0],
        idle_cpu_percent=[1.5, 1.6, 1.7],
        empty_mib=[100.0, 100.0, 103.0],
        idle_mib=[110.0, 112.0, 111.0],
        kill_led_elsewhere_s={"a broker": 0.59},
        back_in_isr_s={"a broker": 3.0},
    )


def test_memory_is_shared_out_among_the_replicas() -> None:
    assert found().kib_per_replica == 10 * 1024 / 1_000


def test_the_table_has_a_figure_for_each_broker_and_each_kill() -> None:
    text = table(found())
    assert "1.50 / 1.60 / 1.70 % of a core" in text
    assert "110 / 112 / 111 MiB, 10.2 KiB a replica" in text
    assert "kill -9 of a broker: led elsewhere" in text
    assert text.count("\n") == 8


def test_programs_get_every_figure() -> None:
    told = json.loads(json.dumps(as_json(found())))
    assert told["idle_cpu_percent"] == [1.5, 1.6, 1.7]
    assert told["kib_per_replica"] == found().kib_per_replica
