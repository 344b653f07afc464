"""Takes what a Spark worker has loaded out of the sight of the garbage collector.

Spark's daemon calls `gc.collect()` after every task, and that walks through all objects of all modules that the worker has
loaded: up to tens of milliseconds of processor time after each task, however few rows it wrote.

Rule 1: only in processes that Spark made for its workers: what a driver does with its memory is its owner's affair.
Rule 2: once the modules are there, never again: objects of the rows themselves stay in sight. Frozen objects are still freed
        when nothing refers to them; only cycles among what was there by then are never looked for again.
"""

from __future__ import annotations

import gc
import sys

from pyspark_oncelog.worker.worker_python import is_worker

_modules_frozen = 0


def freeze_modules() -> None:
    """Called at the end of what a worker does for us. Cheap when nothing was loaded since the last call."""
    global _modules_frozen
    if len(sys.modules) == _modules_frozen or not is_worker():
        return
    gc.collect()
    gc.freeze()
    _modules_frozen = len(sys.modules)
