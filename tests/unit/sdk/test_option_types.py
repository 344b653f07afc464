"""Options are known to type checkers (`lingr_ms=5` once passed mypy --strict), and typed wrong they help.

So are keys and values, by the (de)serializers: what `send` takes, and what records hold.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts import gen_options

ROOT = Path(__file__).parents[3]
TYPED = Path(__file__).parent / "typed_orders.py"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

GOOD = """
from datetime import timedelta

import oncelog


async def use(client: oncelog.Client, sync_client: oncelog.SyncClient) -> None:
    client.producer(linger_ms=5, acks="all", transactional_id=None, request_timeout_ms=1_000)
    client.consumer("orders", "more", group_id="g", value_deserializer=lambda value: value)
    sync_client.producer(value_serializer=str.encode, compression_type="zstd")
    sync_client.consumer("orders", auto_offset_reset="earliest", client_id="mine")
    await client.producer().send("t", b"later", deliver_at=timedelta(minutes=1))
    await client.process_batches("a", "b", lambda records: None, group_id="g", reading={"max_poll_records": 5})
    await client.join_transaction(oncelog.SharedBatch("t", "run", "app", 1), lease_ms=5, batch_size=1 << 20)
    sync_client.join_transaction(oncelog.SharedBatch("t", "run", "app", 1), task_attempt="2", linger_ms=5)


oncelog.Client("a:1", client_id="mine", bootstrap_timeout_ms=1_000, ssl_cafile="ca.crt")
oncelog.SyncClient(["a:1"], username="u", password="p")
config: oncelog.ProducerConfig = oncelog.ProducerConfig(linger_ms=5)
print(oncelog.ClientConfig(), oncelog.ConsumerConfig())
"""
IMPORTS = (
    "import json, oncelog; "
    "from tests.unit.sdk.typed_orders import ORDERS, SYNC_ORDERS, SYNC_PART, Order, decode, decode_bytes"
)
BAD = (
    ("oncelog.Client('a:1').producer(lingr_ms=5)", 'Unexpected keyword argument "lingr_ms"'),
    ("oncelog.Client('a:1').producer(linger_ms='5 ms')", 'incompatible type "str"; expected "int"'),
    ("oncelog.Client('a:1').consumer('orders', linger_ms=5)", 'Unexpected keyword argument "linger_ms"'),
    ("oncelog.Client('a:1', request_timeout=5)", 'Unexpected keyword argument "request_timeout"'),
    ("oncelog.SyncClient('a:1').producer(lingr_ms=5)", 'Unexpected keyword argument "lingr_ms"'),
    ("oncelog.SyncClient('a:1').consumer(group=5)", 'Unexpected keyword argument "group"'),
    ("oncelog.SyncClient('a:1', request_timeout=5)", 'Unexpected keyword argument "request_timeout"'),
    ("ORDERS.send_and_wait('t', Order(), partion=0)", 'Unexpected keyword argument "partion"'),
    ("SYNC_ORDERS.send_and_wait('t', Order(), timestamp_ms='5')", 'incompatible type "str"; expected "int | None"'),
    ("oncelog.Client('a:1').producer(value_serializer=int)", 'has incompatible type "type[int]"'),
    (
        "ORDERS.send('t', Order(1), deliver_at='tomorrow')",
        'expected "datetime | timedelta | int | None"',
    ),
    ("oncelog.Client('a:1').join_transaction('t', 'run', 'app', 1)", "Too many positional arguments"),
    ("oncelog.Client('a:1').process('a', 'b', fn_batch=list, group_id='g')", 'Unexpected keyword argument "fn_batch"'),
    ("ORDERS.send('t', value=3)", 'incompatible type "int"; expected "Order"'),
    ("ORDERS.send('t', value=None)", 'incompatible type "None"; expected "Order"'),
    ("ORDERS.send('t', Order(), key=3)", 'incompatible type "int"; expected "bytes | '),
    ("ORDERS.send_and_wait('t', 3)", 'incompatible type "int"; expected "Order"'),
    ("ORDERS.send_many('t', [3])", 'List item 0 has incompatible type "int"; expected "Order | '),
    ("ORDERS.send_many('t', [(b'7', 3)])", 'List item 0 has incompatible type "tuple[bytes, int]"'),
    ("ORDERS.send_many('t', [oncelog.Message(3)])", 'incompatible type "int"; expected "Order"'),
    ("ORDERS.transaction().send('t', 3)", 'incompatible type "int"; expected "Order"'),
    ("ORDERS.transaction().send_many('t', [3])", 'List item 0 has incompatible type "int"; expected "Order | '),
    ("SYNC_ORDERS.send('t', 3)", 'incompatible type "int"; expected "Order"'),
    ("SYNC_ORDERS.send_many('t', [3])", 'List item 0 has incompatible type "int"; expected "Order | '),
    ("SYNC_ORDERS.transaction().send('t', 3)", 'incompatible type "int"; expected "Order"'),
    ("SYNC_PART.send_many('t', [3])", 'List item 0 has incompatible type "int"; expected "Order | '),
    ("oncelog.Client('a:1').producer().send('t', Order())", 'incompatible type "Order"; expected "bytes | '),
    ("oncelog.SyncClient('a:1').producer().send('t', {})", 'expected "bytes | '),
    ("oncelog.Client('a:1').producer(value_serializer=3)", 'incompatible type "int"'),
    ("oncelog.Client('a:1').consumer(value_deserializer=decode_bytes)", 'type "Callable[[bytes], Order]"'),
    ("oncelog.Client('a:1').consumer(value_deserializer=3)", 'incompatible type "int"'),
    ("next(iter(oncelog.SyncClient('a:1').consumer())).value.decode()", 'Item "None" of "bytes | None"'),
    (
        "next(iter(oncelog.SyncClient('a:1').consumer(value_deserializer=decode))).value.number",
        'Item "None" of "Order | None"',
    ),
)


def test_the_types_are_those_of_the_configuration_classes() -> None:
    assert gen_options.main(["--check"]) == 0, "run python -m scripts.gen_options"


def test_a_type_checker_finds_each_mistake_and_nothing_else(tmp_path: Path) -> None:
    """Regression: `lingr_ms=5` passed, and values were Any."""
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(GOOD)
    bad.write_text("\n".join([IMPORTS, *(line for line, _ in BAD)]) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", good, bad, TYPED, *EXAMPLES],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert found, done.stdout + done.stderr
    assert all("bad.py:" in line for line in found), done.stdout
    for number, (_, expected) in enumerate(BAD, start=2):
        assert any(f"bad.py:{number}: " in line and expected in line for line in found), (number, done.stdout)
