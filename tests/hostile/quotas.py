"""Do quotas hold, and does a noisy tenant stay unheard? Measured on a local cluster of real processes, with access rules on.

    python -m tests.hostile.quotas                  all figures; some four minutes
    python -m tests.hostile.quotas --seconds 5      the same, quickly and coarsely

Run by hand on a machine that does nothing else. Prints the rate at which a client with a quota produced and fetched, against
the quota, and the latencies of a quiet tenant alone, beside a noisy one with a quota, and beside one without.
Exit status 1 when a rate is more than 10 % off, or the quiet tenant's p99 beside the noisy one is above 1.5 times of alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from oncelog.client.admin.admin import AccessRule, Quota, RoleBinding
from oncelog.client.client import Client
from oncelog.sync import Client as Operator
from oncelog.types import TopicPartition
from oncelog_cli.laptop.local_cluster import LocalCluster

MIB = 1 << 20
TOPIC = "measured"
PARTITIONS = 2
VALUE = bytes(10 << 10)
PASSWORD = "pencil of everybody"
NOISY, QUIET = "noisy", "quiet"
SLACK = 0.10
RAISED_MAX = 1.5


def client(address: str, user: str) -> Client:
    """A client of one tenant. The operator is nobody in particular here, and may do everything."""
    return Client(address, username=user, password=PASSWORD)


# ---------------------------------------------------------------- tenants, each in a process of its own


async def produce(address: str, user: str, seconds: float) -> dict[str, float]:
    """As fast as it may. The rate of acknowledged bytes."""
    async with client(address, user) as tenant, tenant.producer(buffer_memory=16 * MIB) as producer:
        await producer.send_and_wait(TOPIC, b"the link is there")
        acked, began = 0, time.monotonic()

        async def send() -> None:
            nonlocal acked
            while time.monotonic() - began < seconds:
                for delivery in [await producer.send(TOPIC, VALUE) for _ in range(20)]:
                    await delivery
                    if time.monotonic() - began < seconds:
                        acked += len(VALUE)

        await asyncio.gather(*(send() for _ in range(64)))
        return {"bytes_per_s": acked / seconds, "throttled_s": tenant.throttled_ms / 1000}


async def fetch(address: str, user: str, seconds: float) -> dict[str, float]:
    """Reads what there is again and again. The rate of bytes of values."""
    where = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    async with client(address, user) as tenant, tenant.consumer() as consumer:
        await consumer.assign(where)
        ends = await consumer.end_offsets(where)
        for one in where:
            consumer.seek(one, 0)
        read, began = 0, time.monotonic()
        while time.monotonic() - began < seconds:
            read += sum(len(record.value or b"") for record in await consumer.getmany(timeout_ms=200))
            for one in where:
                if await consumer.position(one) >= ends[one]:
                    consumer.seek(one, 0)
        return {"bytes_per_s": read / (time.monotonic() - began), "throttled_s": tenant.throttled_ms / 1000}


async def ping(address: str, user: str, seconds: float) -> dict[str, float]:
    """One small record after the other, each acknowledged by all. Latencies in milliseconds."""
    async with client(address, user) as tenant, tenant.producer() as producer:
        took: list[float] = []
        for _ in range(20):
            await producer.send_and_wait(TOPIC, b"warm")
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            at = time.perf_counter()
            await producer.send_and_wait(TOPIC, b"x" * 100)
            took.append((time.perf_counter() - at) * 1000)
            await asyncio.sleep(0.005)
        took.sort()
        return {"p50_ms": took[len(took) // 2], "p99_ms": took[len(took) * 99 // 100], "records": len(took)}


TENANTS = {"produce": produce, "fetch": fetch, "ping": ping}


def start(what: str, address: str, user: str, seconds: float) -> subprocess.Popen[str]:
    """A tenant, at work."""
    command = [sys.executable, "-m", "tests.hostile.quotas", "--tenant", what, "--address", address]
    return subprocess.Popen([*command, "--user", user, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)


def result(tenant: subprocess.Popen[str], seconds: float) -> dict[str, float]:
    """What a tenant measured. Raises `RuntimeError` when it failed."""
    out, _ = tenant.communicate(timeout=3 * seconds + 120)
    if tenant.returncode:
        raise RuntimeError(f"a tenant failed with exit code {tenant.returncode}")
    found: dict[str, float] = json.loads(out)
    return found


# ---------------------------------------------------------------- the story


def prepare(operator: Operator) -> None:
    """Topic, tenants and their rights, and records to fetch."""
    operator.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    for user in (NOISY, QUIET):
        operator.admin.create_user(user, PASSWORD)
    operator.admin.create_acls(
        [AccessRule(f"User:{user}", "IDEMPOTENT_WRITE", "CLUSTER", "oncelog-cluster") for user in (NOISY, QUIET)],
        [RoleBinding(f"User:{user}", "owner") for user in (NOISY, QUIET)],
    )
    with operator.producer() as producer:
        for _ in range(64 * MIB // len(VALUE)):
            producer.send(TOPIC, value=VALUE)
        producer.flush()


def limit(operator: Operator, limits: dict[str, int]) -> None:
    """The noisy tenant's quota; none: without."""
    if limits:
        operator.admin.set_quotas([Quota(f"User:{NOISY}", limits)])
    else:
        operator.admin.remove_quotas([f"User:{NOISY}"])


def rates(operator: Operator, address: str, quota: int, seconds: float) -> bool:
    """Prints both rates against the quota; True when both hold."""
    limit(operator, {"produce_bytes_per_s": quota, "fetch_bytes_per_s": quota})
    holds = True
    for what in ("produce", "fetch"):
        found = result(start(what, address, NOISY, seconds), seconds)
        off = found["bytes_per_s"] / quota - 1
        holds &= abs(off) <= SLACK
        print(
            f"{what:8} quota {quota / MIB:6.2f} MiB/s  measured {found['bytes_per_s'] / MIB:6.2f} MiB/s  {off:+7.1%}  "
            f"throttled {found['throttled_s']:.1f} s",
            flush=True,
        )
    return holds


def neighbours(operator: Operator, address: str, quota: int, seconds: float) -> bool:
    """Prints the quiet tenant's latencies; True when the noisy one's quota keeps them."""
    p99: dict[str, float] = {}
    for name, limits in (
        ("alone", None),
        ("noisy with quota", {"produce_bytes_per_s": quota, "fetch_bytes_per_s": quota}),
        ("noisy without quota", {}),
    ):
        noisy = []
        if limits is not None:
            limit(operator, limits)
            noisy = [start(what, address, NOISY, seconds + 6) for what in ("produce", "fetch")]
            time.sleep(4)
        found = result(start("ping", address, QUIET, seconds), seconds)
        heard = sum(result(tenant, seconds)["bytes_per_s"] for tenant in noisy)
        p99[name] = found["p99_ms"]
        print(
            f"quiet, {name:20} p50 {found['p50_ms']:7.2f} ms  p99 {found['p99_ms']:7.2f} ms  "
            f"({found['p99_ms'] / p99['alone']:.2f} x alone)  {found['records']:.0f} records, noisy moved "
            f"{heard / MIB:.1f} MiB/s",
            flush=True,
        )
    return p99["noisy with quota"] <= RAISED_MAX * p99["alone"]


def story(quota: int, noisy_quota: int, seconds: float) -> int:
    """The exit status."""
    flags = ("--authorization", "acl", "--super-users", "User:ANONYMOUS")
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder), 1, 1, doors=True, serving_flags=flags)
        with cluster:
            address = cluster.bootstrap_at("client")
            with Operator(address) as operator:
                prepare(operator)
                holds = rates(operator, address, quota, seconds)
                kept = neighbours(operator, address, noisy_quota, seconds)
    print(
        f"rates within {SLACK:.0%}: {'yes' if holds else 'NO'}; quiet p99 within {RAISED_MAX} x: {'yes' if kept else 'NO'}"
    )
    return int(not (holds and kept))


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--quota-mib", type=float, default=5.0, help="MiB/s that are produced and fetched")
    parser.add_argument("--noisy-quota-mib", type=float, default=2.0, help="MiB/s of the noisy neighbour, each way")
    parser.add_argument("--tenant", choices=tuple(TENANTS), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--user", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.tenant:
        print(json.dumps(asyncio.run(TENANTS[given.tenant](given.address, given.user, given.seconds))))
        return 0
    return story(int(given.quota_mib * MIB), int(given.noisy_quota_mib * MIB), given.seconds)


if __name__ == "__main__":
    sys.exit(main())
