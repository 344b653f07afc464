"""Collects the parts of a debug bundle. Each part is had or is missing for a stated reason; none stops the others."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import http.client
import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypedDict, TypeVar

from oncelog.client.admin.descriptions import GroupDescription, PartitionOffsets
from oncelog.client.client import Client
from oncelog_cli.support.masking import masked, masked_text
from oncelog_cli.terminal.output import as_json
from oncelog_cli.terminal.profiles import Profiles

_PACKAGES: Final = ("oncelog", "grpcio", "protobuf", "pyarrow", "crc32c", "etcd3", "pyspark", "opentelemetry-sdk")
_HTTP_TIMEOUT_S: Final = 5.0
_HTTP_BYTES_MAX: Final = 32 << 20


T = TypeVar("T")


class Written(TypedDict):
    """The archive that was written: its path, its size, and which parts it has and lacks, with the reason."""

    file: str
    bytes: int
    parts: list[str]
    missing: dict[str, str]


class Bundle:
    """Parts by name."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}

    def add(self, name: str, value: object) -> None:
        """A JSON part; secrets are masked here, for all of them."""
        self.parts[f"{name}.json"] = json.dumps(as_json(masked(_plain(value))), indent=1).encode()

    def add_text(self, name: str, text: str) -> None:
        """A text part."""
        self.parts[name] = masked_text(text).encode()

    async def try_to(self, name: str, have: Callable[[], Awaitable[T]]) -> T | None:
        """Adds what `have` returns, or notes why not. Returns it, or None."""
        try:
            value = await have()
        except Exception as error:  # whatever it is, the other parts are still wanted
            self.missing[name] = masked_text(f"{type(error).__name__}: {error}")
            return None
        self.add(name, value)
        return value

    def write(self, path: Path) -> int:
        """The archive; its size in bytes. Readable for its owner alone."""
        folder = path.name.removesuffix(".tar.gz")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, data in sorted(self.parts.items()):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime = len(data), int(time.time())
                archive.addfile(entry, io.BytesIO(data))
        return path.stat().st_size


async def collect(client: Client, args: argparse.Namespace, path: Path, stamp: str) -> Written:
    """Everything, into a new file. `stamp`: when."""
    bundle = Bundle()
    bundle.add("versions", _versions())
    bundle.add("settings", _settings(client))
    await _cluster(client, bundle)
    for place in args.logs:
        _logs(Path(place), args.log_bytes, bundle)
    for i, url in enumerate(args.metrics):
        await _metrics(url, i, bundle)
    bundle.add("manifest", {"made_at": stamp, "parts": sorted(bundle.parts), "missing": bundle.missing})
    size = await asyncio.to_thread(bundle.write, path)
    return {"file": str(path), "bytes": size, "parts": sorted(bundle.parts), "missing": bundle.missing}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value


def _versions() -> dict[str, object]:
    found: dict[str, object] = {"python": sys.version, "platform": platform.platform(), "cpus": os.cpu_count()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def _settings(client: Client) -> dict[str, object]:
    try:
        profiles: object = dataclasses.asdict(Profiles.read(os.environ))
    except Exception as error:
        profiles = str(error)
    config = {item.name: getattr(client.config, item.name) for item in dataclasses.fields(client.config)}
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith(("ONCELOG_", "GRPC_"))}
    return {"client": {k: v if _is_plain(v) else repr(v) for k, v in config.items()}, "environment": environment,
            "profiles": profiles}  # fmt: skip


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool | list | tuple)


async def _cluster(client: Client, bundle: Bundle) -> None:
    admin = client.admin
    health = await bundle.try_to("health", admin.cluster_health)
    if health is None:
        for name in ("topics", "offsets", "transactions", "hanging_transactions", "groups"):
            bundle.missing[name] = "the cluster did not answer; see health"
        return
    topics = await bundle.try_to("topics", lambda: admin.list_topics(internal=True))

    async def offsets() -> dict[str, dict[int, PartitionOffsets]]:
        return {topic.name: await admin.partition_offsets(topic.name) for topic in topics or ()}

    async def groups() -> list[GroupDescription]:
        return [await admin.describe_group(group.group_id) for group in await admin.list_groups()]

    await bundle.try_to("offsets", offsets)
    await bundle.try_to("transactions", admin.list_transactions)
    await bundle.try_to("hanging_transactions", lambda: admin.find_hanging(topics or ()))
    await bundle.try_to("groups", groups)


def _logs(place: Path, bytes_max: int, bundle: Bundle) -> None:
    try:
        files = sorted(path for path in place.iterdir() if path.is_file()) if place.is_dir() else [place]
    except OSError as error:
        bundle.missing[f"logs/{place.name}"] = str(error)
        return
    for path in files:
        name, number = f"logs/{path.name}", 1
        while name in bundle.parts:  # logs of several nodes often have the same name
            name, number = f"logs/{number}/{path.name}", number + 1
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - bytes_max))
                bundle.add_text(name, file.read(bytes_max).decode("utf-8", "backslashreplace"))
        except OSError as error:
            bundle.missing[name] = str(error)


async def _metrics(url: str, number: int, bundle: Bundle) -> None:
    name = f"metrics/{number}.txt"
    try:
        bundle.add_text(name, await asyncio.to_thread(_get, url))
    except (OSError, ValueError, http.client.HTTPException) as error:  # the last: it does not speak HTTP
        bundle.missing[name] = masked_text(f"{url}: {error}")


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("a metrics page is http:// or https://")
    with urllib.request.urlopen(url, timeout=_HTTP_TIMEOUT_S) as answer:
        data: bytes = answer.read(_HTTP_BYTES_MAX)
    return f"# {masked_text(url)}\n" + data.decode("utf-8", "backslashreplace")
