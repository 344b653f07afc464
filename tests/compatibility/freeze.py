"""Stores what the previous version writes, as the golden files of `test_golden.py`: `python -m tests.compatibility.freeze`.

It runs that version's own processes (previous.txt) with a small load, then keeps what is in etcd, one broker's data
directory, and the descriptors of its wire contract. Run it at a release; the files must never change otherwise.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.compatibility.mixed_cluster import OLD, SERVICES, MixedCluster
from tests.compatibility.previous_version import HERE, skip_reason, unpack, with_sources

GOLDEN: Final = HERE / "golden"
DESCRIPTORS: Final = GOLDEN / "descriptors.binpb"
ETCD: Final = GOLDEN / "etcd.json"
LOGS: Final = GOLDEN / "logs.tar.gz"
EXPECTED: Final = GOLDEN / "expected.json"
TOPIC: Final = "golden"

_DESCRIPTORS_PROGRAM: Final = """
import importlib, pkgutil, sys
import oncelog.v1
from google.protobuf import descriptor_pb2
found = descriptor_pb2.FileDescriptorSet()
for name in sorted(module.name for module in pkgutil.iter_modules(oncelog.v1.__path__)):
    if name.endswith("_pb2"):  # whatever contracts that version has
        importlib.import_module("oncelog.v1." + name).DESCRIPTOR.CopyToProto(found.file.add())
sys.stdout.buffer.write(found.SerializeToString(deterministic=True))
"""
# Everything that a log can hold: plain and keyed records with headers, each codec, a commit, an abort, offsets in a
# transaction, a shared transaction with a winner and a loser, a deleted head.
_LOAD_PROGRAM: Final = """
import asyncio, json, sys
from oncelog.client.client import Client

TOPIC = sys.argv[2]

async def main():
    async with Client(sys.argv[1]) as client:
        await client.admin.create_topic(TOPIC, partitions=2, config={"segment.bytes": "4096"})
        for codec in ("none", "lz4", "zstd"):
            async with client.producer(compression_type=codec) as producer:
                for i in range(30):
                    await producer.send(TOPIC, f"{codec}-{i}" * 20, key=f"k{i}", partition=i % 2, headers={"n": str(i)})
                    await producer.flush()
        async with client.producer(transactional_id="golden-txn") as producer:
            for n in range(4):
                txn = await producer.begin_transaction()
                for i in range(5):
                    await txn.send(TOPIC, f"txn-{n}-{i}", partition=i % 2)
                await txn.flush()
                await (txn.abort() if n % 2 else txn.commit(wait="visible"))
            async with client.consumer(group_id="golden-group", auto_offset_reset="earliest",
                                       enable_auto_commit=False) as consumer:
                await consumer.assign_topics(TOPIC)
                records = await consumer.getmany(timeout_ms=5000, max_records=10)
                async with producer.transaction() as txn:
                    await txn.send(TOPIC, "with-offsets", partition=0)
                    await txn.send_offsets(records)
        found = {}
        async with client.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([(TOPIC, 0), (TOPIC, 1)])
            quiet = 0
            while quiet < 5:
                records = await consumer.getmany(timeout_ms=300)
                quiet = 0 if records else quiet + 1
                for r in records:
                    row = [r.offset, r.key.decode() if r.key else None, r.value.decode()]
                    found.setdefault(str(r.partition), []).append(row)
        print(json.dumps(found))

asyncio.run(main())
"""


def descriptors(sources: Path) -> bytes:
    """The serialised FileDescriptorSet of a version's wire contract."""
    command = with_sources(sources, "-c", _DESCRIPTORS_PROGRAM)
    return subprocess.run(command, capture_output=True, check=True).stdout


def main() -> None:
    """Writes all golden files."""
    if reason := skip_reason():
        raise SystemExit(reason)
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        DESCRIPTORS.write_bytes(descriptors(unpack(folder)))
        flags = ("--transaction-shards", "2", "--group-shards", "2")
        with MixedCluster(folder, dict.fromkeys(SERVICES, OLD), *flags) as cluster:
            words = ["-c", _LOAD_PROGRAM, cluster.local.bootstrap_servers, TOPIC]
            command = with_sources(cluster.sources[OLD], *words)
            visible = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
            ETCD.write_text(json.dumps(asyncio.run(_etcd(cluster)), indent=1, sort_keys=True) + "\n")
        EXPECTED.write_text(json.dumps({"visible": visible}, indent=None) + "\n")
        _pack(folder / "data" / "broker-0" / "logs")


async def _etcd(cluster: MixedCluster) -> dict[str, str]:
    """Every key of ours and its value."""
    from oncelog_runtime.adapters.etcd.metadata_store import EtcdMetadata
    from oncelog_runtime.metadata.cluster_keys import ROOT

    store: Any = EtcdMetadata([cluster.local.processes["etcd"].address])
    try:
        listing = await store.list(ROOT)
    finally:
        await store.close()
    return {item.key: item.value.decode() for item in listing.items}


def _pack(logs: Path) -> None:
    """Sparse files and times do not matter; the order of names does, so that a second run differs as little as can be."""
    with tarfile.open(LOGS, "w:gz") as archive:
        for path in sorted(logs.rglob("*")):
            archive.add(path, path.relative_to(logs), recursive=False)
    shutil.rmtree(logs)


if __name__ == "__main__":
    main()
