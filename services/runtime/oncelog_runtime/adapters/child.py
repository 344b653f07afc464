"""Starts child processes that the kernel ends when their parent dies, also after SIGKILL."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Sequence
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PROGRAM: Final = f"""
import ctypes, os, signal, sys
prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux only
if prctl is not None:
    prctl({_PR_SET_PDEATHSIG}, signal.SIGTERM)
os.execv(sys.argv[1], sys.argv[1:])
"""


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Returns the command, preceded by a small program that asks the kernel for SIGTERM at the parent's death.

    It is a program of its own because Python code between fork and exec (`preexec_fn`) breaks gRPC in the parent
    (tried). `command[0]` is a path.
    """
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, *command]


def die_with_parent() -> None:
    """Asks the kernel for SIGTERM to this process at the death of its parent."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
