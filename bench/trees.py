"""Names that have another place in older source trees, for programs that measure one tree against another (`bench.side`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.link.malloc import tune_malloc
    from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
else:
    try:
        from oncelog.link.malloc import tune_malloc
        from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
    except ModuleNotFoundError:  # before 2026-11-23
        from oncelog.malloc import tune_malloc
        from oncelog_runtime.local import LocalCluster, LocalTls

__all__ = ["LocalCluster", "LocalTls", "tune_malloc"]
