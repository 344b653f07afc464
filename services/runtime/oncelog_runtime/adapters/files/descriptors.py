"""The limit of open files of this process."""

from __future__ import annotations

import resource


def raise_limit() -> int:
    """Raises the soft limit of open files to the hard one; returns the limit in force, 0 = none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # some systems have a lower bound of their own
            pass
    return 0 if soft == resource.RLIM_INFINITY else soft
