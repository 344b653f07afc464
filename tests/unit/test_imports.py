"""What an import costs and needs: the SDK's root is lazy, and the SDK stands without the server's and Spark's packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyspark_oncelog import preflight

# In a fresh interpreter: this one has long loaded everything.
LOADED = "import sys; import {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
# An import of any of these fails, as if it were not installed.
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({missing!r})); import {module}"


def run(program: str) -> str:
    """Run a program on a fresh interpreter and return what it printed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["oncelog", "oncelog.errors", "oncelog.types"])
def test_the_root_of_the_sdk_loads_neither_grpc_nor_arrow(module: str) -> None:
    loaded = set(run(LOADED.format(module=module)).split())
    assert module.partition(".")[0] in loaded
    assert loaded & {"grpc", "google", "pyarrow", "numpy", "pyspark", "asyncio"} == set()


@pytest.mark.parametrize("module", ["oncelog", "oncelog.core", "oncelog.v1"])
def test_the_sdk_imports_without_the_extras(module: str) -> None:
    missing = ["etcd3", "opentelemetry", "prometheus_client", "uvloop", "pyspark", "py4j", "grpc_health", "pandas"]
    run(WITHOUT.format(module=module, missing=missing))


def test_every_public_name_of_the_sdk_exists() -> None:
    run("import oncelog; [getattr(oncelog, name) for name in getattr(oncelog, '__all__', [])]")


def test_what_spark_imports_to_find_our_source_needs_none_of_our_dependencies() -> None:
    """Where one import fails Spark finds no source at all; so a job without protobuf is told by our check what is missing."""
    run(WITHOUT.format(module="pyspark_oncelog.datasource", missing=list(preflight.NEEDED)))
    loaded = set(run(LOADED.format(module="pyspark_oncelog.datasource")).split())
    assert loaded & {"grpc", "google", "pyarrow", "numpy", "asyncio"} == set()


def test_spark_finds_our_package_and_it_loads_no_service() -> None:
    loaded = set(run(LOADED.format(module="pyspark_oncelog")).split())
    assert "pyspark_oncelog" in loaded
    assert {name for name in loaded if name.startswith("oncelog_")} == set()
    assert "pandas" not in loaded
