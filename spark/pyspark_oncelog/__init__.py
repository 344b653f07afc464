"""The oncelog data source for Apache Spark; Spark finds this package by its name.

Spark imports every installed package called `pyspark_*` in each session, and if one of them fails, it knows none.  So
nothing of weight is imported here before it is used; a driver is warned when its workers would find no oncelog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_oncelog.worker.worker_python import warn_of_other_python

if TYPE_CHECKING:
    from pyspark_oncelog.datasource import DefaultSource as DefaultSource
    from pyspark_oncelog.registration import register as register

__all__ = ["DefaultSource", "register"]

warn_of_other_python()


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        from pyspark_oncelog.datasource import DefaultSource

        return DefaultSource
    if name == "register":
        from pyspark_oncelog.registration import register

        return register
    raise AttributeError(f"module {__name__} has no attribute {name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
