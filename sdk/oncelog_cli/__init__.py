"""The command line: `oncelog VERB ...`. Every verb prints text or JSON, from one value.

Exit codes: 0 done, 1 a named error or an unhealthy cluster, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

from oncelog_cli.main import main

__all__ = ["main"]
