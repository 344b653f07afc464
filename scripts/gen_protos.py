"""Generate the committed stubs from protos/, or check that they are what protos/ says.

Rule 1: a proto's path is its Python import path: protos/oncelog/v1/x.proto becomes sdk/oncelog/v1/x_pb2.py.
Rule 2: the generator is the old pinned one of locks/protos.txt, since generated code refuses older runtimes.
Rule 3: stubs whose proto is gone are drift too.
Rule 4: protoc types messages only; what is called (`*_pb2_grpc.pyi`) is typed here, for the public package `oncelog`.
Runs on .venv-protos (`make protos`, `make lint`).
"""

from __future__ import annotations

import argparse
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
# The first folder below protos/ names the package, and so the source root of its stubs.
SOURCE_ROOTS = {"oncelog": Path("sdk"), "oncelog_runtime": Path("services/runtime")}
STUB_PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")
TYPED_PACKAGE = "oncelog"
_HEAD = '''"""Types of {source}, written by scripts/gen_protos.py: not to be edited.

`XStub(channel)` of a `grpc.Channel` answers at once. With a `grpc.aio.Channel` each call is awaited: then say so with
`cast("XAsyncStub", XStub(channel))`; `XAsyncStub` exists for type checkers only.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

{imports}

_Req = TypeVar("_Req", contravariant=True)
_Rep = TypeVar("_Rep", covariant=True)
_Metadata = Sequence[tuple[str, str | bytes]]

class _Call(Protocol[_Req, _Rep]):
    def __call__(
        self,
        request: _Req,
        timeout: float | None = ...,
        metadata: _Metadata | None = ...,
        credentials: Any = ...,
        wait_for_ready: bool | None = ...,
        compression: Any = ...,
    ) -> _Rep: ...

class _AsyncCall(Protocol[_Req, _Rep]):
    def __call__(
        self,
        request: _Req,
        *,
        timeout: float | None = ...,
        metadata: _Metadata | None = ...,
        credentials: Any = ...,
        wait_for_ready: bool | None = ...,
        compression: Any = ...,
    ) -> Awaitable[_Rep]: ...

class _Stream(Protocol[_Req, _Rep]):
    def __call__(
        self, request_iterator: Iterator[_Req], timeout: float | None = ..., metadata: _Metadata | None = ...
    ) -> Iterator[_Rep]: ...

class _AsyncStream(Protocol[_Req, _Rep]):
    """What it returns can be read, and written to, as grpc.aio has it."""

    def __call__(
        self,
        request_iterator: AsyncIterator[_Req] | None = ...,
        *,
        timeout: float | None = ...,
        metadata: _Metadata | None = ...,
    ) -> Any: ...
'''


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
    _type_calls(into / SOURCE_ROOTS[TYPED_PACKAGE])


def _type_calls(out: Path) -> None:
    """Write a `*_pb2_grpc.pyi` for each proto of the public package that has a service."""
    from google.protobuf import descriptor_pb2

    protos = sorted(str(path) for path in (PROTOS / TYPED_PACKAGE).rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "described"
        command = [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{PROTOS}",
            f"--descriptor_set_out={described}",
            *protos,
        ]
        subprocess.run(command, check=True, cwd=ROOT)
        files = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes()).file
    modules = {f".{file.package}.{message.name}": _module(file.name) for file in files for message in file.message_type}
    for file in files:
        if file.service:
            (out / f"{file.name.removesuffix('.proto')}_pb2_grpc.pyi").write_text(_typed(file, modules))


def _module(proto: str) -> str:
    return proto.removesuffix(".proto").replace("/", ".") + "_pb2"


def _typed(file: Any, modules: dict[str, str]) -> str:
    """The types of one file: for each service the stub, the stub of asyncio, what a server implements, its registration."""
    methods = [method for service in file.service for method in service.method]
    used = sorted({modules[name] for method in methods for name in (method.input_type, method.output_type)})
    imports = "\n".join(f"from {module.rpartition('.')[0]} import {module.rpartition('.')[2]}" for module in used)
    parts = [_HEAD.format(source=file.name, imports=imports)]
    for service in file.service:
        for name, prefix in ((f"{service.name}Stub", "_"), (f"{service.name}AsyncStub", "_Async")):
            lines = [f"class {name}:", "    def __init__(self, channel: Any) -> None: ..."]
            lines += [f"    {m.name}: {prefix}{_kind(m)}[{_pair(m, modules)}]" for m in service.method]
            parts.append("\n".join(lines) + "\n")
        lines = [f"class {service.name}Servicer:"]
        for method in service.method:
            given = (
                "request_iterator: Any" if method.client_streaming else f"request: {_name(method.input_type, modules)}"
            )
            lines.append(f"    def {method.name}(self, {given}, context: Any) -> Any: ...")
        parts.append("\n".join(lines) + "\n")
        parts.append(f"def add_{service.name}Servicer_to_server(servicer: Any, server: Any) -> None: ...\n")
    return "\n".join(parts)


def _kind(method: Any) -> str:
    assert method.client_streaming == method.server_streaming, "only unary calls and links are known"
    return "Stream" if method.client_streaming else "Call"


def _pair(method: Any, modules: dict[str, str]) -> str:
    return f"{_name(method.input_type, modules)}, {_name(method.output_type, modules)}"


def _name(message: str, modules: dict[str, str]) -> str:
    return f"{modules[message].rpartition('.')[2]}.{message.rpartition('.')[2]}"


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
