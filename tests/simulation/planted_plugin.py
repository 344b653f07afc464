"""`pytest -p tests.simulation.planted_plugin`, with ONCELOG_PLANT=name: the tests run with that rule taken out.

It is taken out before any test module is imported, so that what a test imports by name is the changed thing too.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from tests.simulation.planted_bugs import plant_named


def pytest_configure(config: pytest.Config) -> None:
    """Plants, until pytest ends."""
    name = os.environ.get("ONCELOG_PLANT")
    if name:
        stack = ExitStack()
        stack.enter_context(plant_named(name).planted())
        config.add_cleanup(stack.close)
