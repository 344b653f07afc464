"""Other languages can generate code from protos/ without telling their generator anything more.

Rule 1: all files of the package go into one package of each language, so that no file needs a mapping of its own.
Rule 2: values of enums begin with the name of the enum: in C++ and others they share one namespace, with macros and each other.
"""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import oncelog.v1

MODULES = sorted(module.name for module in pkgutil.iter_modules(oncelog.v1.__path__) if module.name.endswith("_pb2"))


@pytest.mark.parametrize("name", MODULES)
def test_each_language_knows_its_package(name: str) -> None:
    """Regression: protoc-gen-go said `unable to determine Go import path`."""
    options = importlib.import_module(f"oncelog.v1.{name}").DESCRIPTOR.GetOptions()
    assert options.go_package == "oncelog/v1;oncelogv1"
    assert (options.java_package, options.java_multiple_files) == ("oncelog.v1", True)
    assert options.csharp_namespace == "Oncelog.V1"


def test_no_file_is_left_out() -> None:
    assert len(MODULES) >= 8


def test_values_of_enums_say_of_which() -> None:
    """Regression: NONE, ERROR and ABORT were values in one package."""
    found = [
        (enum.name, value.name)
        for name in MODULES
        for enum in importlib.import_module(f"oncelog.v1.{name}").DESCRIPTOR.enum_types_by_name.values()
        for value in enum.values
    ]
    assert len(found) > 100
    prefixes = {enum: "_".join(re.findall("[A-Z][a-z]*", enum)).upper() + "_" for enum, _ in found}
    assert [(enum, value) for enum, value in found if not value.startswith(prefixes[enum])] == []
