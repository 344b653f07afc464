"""Other languages can generate code from protos/ without telling their generator anything more.

Rule: all files of the package go into one package of each language, so that no file needs a mapping of its own.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import oncelog.v1

MODULES = sorted(module.name for module in pkgutil.iter_modules(oncelog.v1.__path__) if module.name.endswith("_pb2"))


@pytest.mark.parametrize("name", MODULES)
def test_each_language_knows_its_package(name: str) -> None:
    options = importlib.import_module(f"oncelog.v1.{name}").DESCRIPTOR.GetOptions()
    assert options.go_package == "oncelog/v1;oncelogv1"
    assert (options.java_package, options.java_multiple_files) == ("oncelog.v1", True)
    assert options.csharp_namespace == "Oncelog.V1"


def test_no_file_is_left_out() -> None:
    assert len(MODULES) >= 8
