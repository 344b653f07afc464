"""Generate the committed stubs from protos/, or check that they are what protos/ says.

Rule 1: a proto's path is its Python import path: protos/oncelog/v1/x.proto becomes sdk/oncelog/v1/x_pb2.py.
Rule 2: the generator is the old pinned one of locks/protos.txt, since generated code refuses older runtimes.
Rule 3: stubs whose proto is gone are drift too.
Runs on .venv-protos (`make protos`, `make lint`).
"""

from __future__ import annotations

import argparse
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
# The first folder below protos/ names the package, and so the source root of its stubs.
SOURCE_ROOTS = {"oncelog": Path("sdk"), "oncelog_runtime": Path("services/runtime")}
STUB_PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def generate(into: Path) -> None:
    """Write every stub below `into`, laid out as in the repository."""
    for package, source_root in SOURCE_ROOTS.items():
        protos = sorted(str(path) for path in (PROTOS / package).rglob("*.proto"))
        if not protos:
            continue
        out = into / source_root
        out.mkdir(parents=True, exist_ok=True)
        outputs = [f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", *outputs, *protos]
        subprocess.run(command, check=True, cwd=ROOT)


def stubs(below: Path) -> set[Path]:
    """The generated files below a repository-like folder, as relative paths."""
    found: set[Path] = set()
    for source_root in SOURCE_ROOTS.values():
        for pattern in STUB_PATTERNS:
            found.update(path.relative_to(below) for path in (below / source_root).rglob(pattern))
    return found


def drift(fresh: Path) -> list[str]:
    """What differs between the committed stubs and fresh ones, one line each."""
    wanted, present = stubs(fresh), stubs(ROOT)
    lines = [f"{path} is missing" for path in sorted(wanted - present)]
    lines += [f"{path} has no proto" for path in sorted(present - wanted)]
    for path in sorted(wanted & present):
        if not filecmp.cmp(fresh / path, ROOT / path, shallow=False):
            lines.append(f"{path} differs from its proto")
    return lines


def check() -> int:
    """Exit status 1, with a line for each difference, when the stubs are not what protos/ says."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        differences = drift(Path(folder))
    for line in differences:
        print(f"protos: {line}", file=sys.stderr)
    if differences:
        print("protos: run `make protos` and commit what it writes.", file=sys.stderr)
    return 1 if differences else 0


def write() -> int:
    """Write the stubs into the repository, and drop those whose proto is gone."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        gone = stubs(ROOT) - stubs(Path(folder))
    generate(ROOT)
    for path in sorted(gone):
        (ROOT / path).unlink()
    return 0


def main() -> int:
    """Write, or with --check compare."""
    parser = argparse.ArgumentParser(description="Generate the stubs of protos/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the stubs are out of date")
    return check() if parser.parse_args().check else write()


if __name__ == "__main__":
    sys.exit(main())
