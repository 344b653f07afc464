"""A failing seed says how it is run again."""

from __future__ import annotations

from tests.simulation.run import again


def test_the_command_repeats_the_seed() -> None:
    assert again(4711, ()) == "make sim SEED=4711 SEEDS=1"


def test_a_forced_fault_is_in_the_command_because_it_makes_another_run() -> None:
    assert again(7, ("restore_etcd",)) == 'make sim SEED=7 SEEDS=1 ARGS="--force restore_etcd"'
