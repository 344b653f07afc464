"""`python -m oncelog_cli ...` is `oncelog ...`."""

from __future__ import annotations

import sys

from oncelog_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
