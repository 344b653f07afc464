"""`tune_malloc` works where glibc is, and is harmless elsewhere."""

from __future__ import annotations

import ctypes
import platform

import pytest

from oncelog.link.malloc import tune_malloc


def test_it_sets_both_thresholds_on_glibc() -> None:
    assert tune_malloc() is (platform.libc_ver()[0] == "glibc")


def test_it_does_nothing_without_mallopt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert tune_malloc() is False
