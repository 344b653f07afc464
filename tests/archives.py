"""Unpacks archives that this repository made, with any Python 3.11."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Like `extractall(filter="data")`, which only Python 3.11.4 and later know."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
