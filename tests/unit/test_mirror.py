"""Each module of the source has the test module of its name in the same folder of tests/unit, or is listed with the test that
covers it.

Rule: `COVERED` is for modules that need no test module: each with a test that fails when the module is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

UNIT: Final = Path(__file__).resolve().parent
ROOT: Final = UNIT.parents[1]
MIRRORS: Final = {
    "sdk/oncelog": "sdk",
    "sdk/oncelog_cli": "cli",
    "spark/pyspark_oncelog": "spark",
    "services/runtime/oncelog_runtime": "runtime",
    "services/coordinator/oncelog_coordinator": "coordinator",
    "services/partition_leader/oncelog_partition_leader": "partition_leader",
    "services/pid_allocator/oncelog_pid_allocator": "pid_allocator",
}
_COORDINATOR: Final = "services/coordinator/oncelog_coordinator"
_BROKER: Final = "services/partition_leader/oncelog_partition_leader"
_ALL_SERVICES: Final = (
    "tests/integration/test_metrics.py::test_every_metric_of_the_table_is_exported_by_the_services_that_it_names"
)
COVERED: Final[dict[str, str]] = {
    "services/runtime/oncelog_runtime/config/startup_error.py": (
        "tests/unit/runtime/adapters/grpc/test_grpc_server.py::test_a_port_that_another_process_has_names_the_flag_that_changes_it"
    ),
    "services/runtime/oncelog_runtime/node_ports.py": "tests/unit/runtime/sim/test_node.py",
    "services/runtime/oncelog_runtime/ports.py": "tests/contracts/test_disk.py",
    "spark/pyspark_oncelog/options/option_table.py": (
        "tests/unit/test_reference.py::test_a_default_of_spark_may_be_given_and_changes_nothing"
    ),
    "sdk/oncelog/errors/abortable.py": "tests/unit/sdk/errors/test_errors_package.py::test_a_file_holds_one_family",
    "sdk/oncelog/errors/fatal.py": "tests/unit/sdk/errors/test_errors_package.py::test_a_file_holds_one_family",
    "sdk/oncelog/link/client_link.py": "tests/integration/runtime/test_grpc_link.py",
    "sdk/oncelog/link/grpc_transport.py": "tests/contracts/test_transport.py",
    "services/runtime/oncelog_runtime/adapters/grpc/link/server_link.py": "tests/integration/runtime/test_grpc_link_ends.py",
    "sdk/oncelog/ports.py": "tests/contracts/transport_suite.py",
    "sdk/oncelog/types.py": "tests/unit/sdk/client/home/test_stays_here.py::test_plain_values_travel",
    f"{_COORDINATOR}/__main__.py": _ALL_SERVICES,
    f"{_COORDINATOR}/core/decision.py": "tests/unit/coordinator/shard/test_shard_runtime.py::"
    "test_complete_waits_for_company_and_is_logged_after_a_while",
    f"{_COORDINATOR}/core/offsets/offset_commands.py": "tests/unit/coordinator/core/offsets/test_offset_table.py",
    f"{_COORDINATOR}/core/transactions/commands.py": "tests/unit/coordinator/core/transactions/test_client_decisions.py",
    f"{_BROKER}/__main__.py": "tests/integration/test_command_line.py::test_a_taken_port_is_explained",
    f"{_BROKER}/core/appends/effects.py": "tests/unit/partition_leader/partition/test_leadership_effects.py",
    f"{_BROKER}/core/producers/decisions.py": "tests/unit/partition_leader/core/producers/test_producer_state.py",
    "services/pid_allocator/oncelog_pid_allocator/__main__.py": _ALL_SERVICES,
}
"""Module -> the test that covers it, `tests/...py::name` or a whole file."""
COVERED_MAX: Final = 20


def _modules() -> dict[str, Path]:
    """Source file -> its test module, whether that exists or not."""
    found = {}
    for source, tests in MIRRORS.items():
        folder = ROOT / source
        for path in folder.rglob("*.py"):
            place = path.relative_to(folder)
            if path.name != "__init__.py" and place.parts[0] not in ("v1", "etcd_wire"):
                name = f"test_{path.stem.strip('_')}.py"
                found[path.relative_to(ROOT).as_posix()] = UNIT / tests / place.parent / name
    return found


MODULES: Final = _modules()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_has_its_tests(module: str) -> None:
    if MODULES[module].exists():
        assert module not in COVERED, f"{module} has its tests now: take it off the list"
    else:
        assert module in COVERED, f"{module} needs {MODULES[module].relative_to(ROOT)}"


def test_what_is_listed_exists() -> None:
    assert set(MODULES) >= set(COVERED)


@pytest.mark.parametrize(("module", "test"), COVERED.items())
def test_a_covering_test_exists(module: str, test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}" in (ROOT / path).read_text(), f"{module}: there is no {test}"


def test_few_modules_are_covered_elsewhere() -> None:
    assert len(COVERED) < COVERED_MAX
