"""Makes a container image of an etcd binary, for a cluster that reaches no registry: `etcd` alone, no shell, non-root.

Usage: python scripts/etcd_image.py ETCD NAME:TAG OUT.tar    then load OUT.tar into the cluster (a docker archive)

The binary must be static, as etcd's own releases are. It stands where the upstream image has it: /usr/local/bin/etcd.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main() -> int:
    """Writes the archive."""
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    binary, name, out = sys.argv[1:]
    layer = _layer(Path(binary).read_bytes())
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "config": {"Env": ["PATH=/usr/local/bin"], "Cmd": ["/usr/local/bin/etcd"], "User": "10001:10001"},
        }
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(out, "w") as archive:
        for path, body in (
            (config_name, config),
            (f"{digest}/layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(path)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return 0


def _layer(binary: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder, mode in (("usr", 0o755), ("usr/local", 0o755), ("usr/local/bin", 0o755), ("tmp", 0o1777)):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, mode
            layer.addfile(info)
        info = tarfile.TarInfo("usr/local/bin/etcd")
        info.size, info.mode = len(binary), 0o755
        layer.addfile(info, io.BytesIO(binary))
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
