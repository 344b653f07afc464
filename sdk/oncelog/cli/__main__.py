"""`python -m oncelog.cli ...` is `oncelog ...`."""

from __future__ import annotations

import sys

from oncelog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
