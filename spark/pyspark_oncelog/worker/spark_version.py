"""Is this Spark new enough? Asked by what it has, since builds of vendors have numbers of their own.

Rule: nothing of what is looked for is imported here, so that the answer is an error with a name and no ImportError.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Final

from oncelog.errors import ConfigError

NEEDED_MODULES: Final = ("pyspark.sql.streaming.datasource",)
"""New in Spark 4.2: with it a source in Python bounds its micro-batches, ends by itself and reports the end of the log."""


def require_spark(version: str, modules: Iterable[str] = NEEDED_MODULES) -> None:
    """Raises `ConfigError` that says which Spark is needed, and why."""
    if all(importlib.util.find_spec(name) is not None for name in modules):
        return
    raise ConfigError(
        f"oncelog needs Spark 4.2 or newer, and this is {version}: only since 4.2 may a source in Python bound its "
        "micro-batches and end by itself. Take a newer Spark, or the SDK (oncelog.Client) in its place"
    )
