"""Whether the Python that Spark would start for its workers has oncelog; asked when the driver imports this package.

Spark itself says only `DATA_SOURCE_NOT_FOUND: oncelog`: its workers look for data sources, and another Python's find none.

Rule 1: a wrong Python is a warning, never an error: session settings, which are not known here, may name another one.
Rule 2: nothing is asked inside of Spark's own workers, nor when they would obviously run on this Python.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = "PYSPARK_PYTHON"
_USUAL: Final = "python3"
_PROBE: Final = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyspark_oncelog') is None)"
_PROBE_TIMEOUT_S: Final = 20.0


def warn_of_other_python() -> None:
    """Warns, in a driver, when Spark's workers would find no oncelog."""
    if is_worker() or not sys.executable or not (sentence := problem(os.environ, sys.executable)):
        return
    try:
        warnings.warn(sentence, stacklevel=3)
    except Warning:  # where warnings are errors: an import must not fail for it
        logging.getLogger(__name__).warning(sentence)


def is_worker() -> bool:
    """A worker of Spark's, which imports every `pyspark_*` package."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def problem(environment: Mapping[str, str], own: str) -> str:
    """Returns the problem of the workers' Python and its remedy; empty when there is none. `own`: the Python of this
    process.
    """
    named = environment.get(_VARIABLE, "")
    found = shutil.which(named or _USUAL, path=environment.get("PATH", os.defpath))
    if found is not None and (os.path.dirname(os.path.abspath(found)) == os.path.dirname(own) or _has_oncelog(found)):
        return ""
    who = (
        f"{_VARIABLE}={named}"
        if named
        else f"{_VARIABLE} is not set, and {_USUAL} on PATH ({found or 'there is none'})"
    )
    what = "has no oncelog" if found is not None else "is no program" if named else "cannot run Spark's workers"
    return (
        f"Spark will not find the data source oncelog: {who} {what}. Before the session starts, activate the environment "
        f"of this Python, or set {_VARIABLE}={own}"
    )


def _has_oncelog(executable: str) -> bool:
    import subprocess

    try:
        done = subprocess.run([executable, "-c", _PROBE], capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
