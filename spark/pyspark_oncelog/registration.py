"""Registration by hand, for sessions in which Spark's own look-up failed because another `pyspark_*` package is broken."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from oncelog.errors import ConfigError
from pyspark_oncelog.preflight import NEEDED, wrong_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE: Final = (
    "import importlib, sys\n"
    "def lacks(name):\n"
    "    try: importlib.import_module(name)\n"
    "    except ImportError: return True\n"
    "print(*[name for name in sys.argv[1:] if lacks(name)])"
)
_PROBE_TIMEOUT_S: Final = 60.0


def register(spark: SparkSession) -> None:
    """Makes `format("oncelog")` known to this session, after a check that the workers' Python has what it needs.

    Raises `ConfigError` that names PYSPARK_PYTHON.
    """
    from pyspark_oncelog.datasource import DefaultSource

    context = getattr(spark, "_sc", None)  # absent in Spark Connect, where the workers are not ours to look at
    require_worker_python(getattr(context, "pythonExec", sys.executable))
    spark.dataSource.register(DefaultSource)


def require_worker_python(executable: str) -> None:
    """Asks another Python on this machine for its packages. Raises `ConfigError`."""
    command = [executable, "-c", _PROBE, "pyspark_oncelog", "oncelog", *NEEDED]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(wrong_python(executable, ["a Python that runs"])) from error
    if missing := done.stdout.split():
        raise ConfigError(wrong_python(executable, missing))
