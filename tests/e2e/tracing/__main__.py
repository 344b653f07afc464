"""`make e2e-tracing`: a cluster on this machine, a Spark stream, and the span tree of its last micro-batch, from a real Jaeger.

    python -m tests.e2e.tracing [--tasks N] [--partitions N] [--json FILE]

Exit code 0: the whole tree is in one trace; 1: it is not; 2: no Jaeger or no Java, and the message says how to get one.
`make test` asks the same of a collector of its own; here it is Jaeger's storage and query API that answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from demo.jaeger import Jaeger, NoJaeger, find_jaeger
from oncelog.sync import Client
from oncelog.trace import span_names
from oncelog_cli.laptop.local_cluster import LocalCluster
from tests import span_tree
from tests.e2e.tracing.jaeger_spans import spans_of
from tests.integration.spark_tools import Pipeline

TOPIC: Final = "traced"
_COME_S: Final = 20.0
_BATCHES: Final = 4
_LINES: Final = 2_000


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="make e2e-tracing")
    parser.add_argument("--tasks", type=int, default=2, help="Spark tasks of the batch (default %(default)s)")
    parser.add_argument("--partitions", type=int, default=3, help="of the topic (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the trace here, as Jaeger gives it")
    args = parser.parse_args()
    try:
        jaeger = find_jaeger()
    except NoJaeger as error:
        print(f"make e2e-tracing needs, and does not find: {error}", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="oncelog-e2e-tracing-") as folder:
            found = _run(jaeger, Path(folder), args.tasks, args.partitions)
    finally:
        jaeger.stop()
    if found is None:
        print("failed: Jaeger has no trace of the micro-batch", file=sys.stderr)
        return 1
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1))
    return _judge(jaeger, found)


def _run(jaeger: Jaeger, folder: Path, tasks: int, partitions: int) -> dict[str, Any] | None:
    """A stream; the trace of its last micro-batch, when it is whole or the time is over."""
    flags = ("--otlp-endpoint", jaeger.endpoint)
    with LocalCluster(folder / "cluster", flags=flags) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            client.admin.create_topic(TOPIC, partitions=partitions)
        query_id = _micro_batch(cluster, jaeger, folder, tasks)
    found: dict[str, Any] | None = None
    deadline = time.monotonic() + _COME_S
    while time.monotonic() < deadline:
        for trace in jaeger.traces("spark", span_tree.ROOT):
            if _is_last_of(trace, query_id):
                found = trace
                if not span_tree.problems(spans_of(trace), TOPIC):
                    return found
        time.sleep(0.2)
    return found


def _is_last_of(trace: dict[str, Any], query_id: str) -> bool:
    """The last micro-batch: by then Spark is warm."""
    wanted = {span_names.SPARK_APP_ID: query_id, span_names.SPARK_BATCH_ID: str(_BATCHES - 1)}
    return any(wanted.items() <= span.attributes.items() for span in spans_of(trace) if span.name == span_tree.ROOT)


def _micro_batch(cluster: LocalCluster, jaeger: Jaeger, folder: Path, tasks: int) -> str:
    from demo.job import session

    spark = session()
    try:
        pipeline = Pipeline(spark, cluster, folder, TOPIC)
        for batch in range(_BATCHES):
            pipeline.add(str(batch), [f"line {number} of {batch}" for number in range(_LINES)])
        frame = pipeline.frame().repartition(tasks)
        pipeline.run(frame, otlpEndpoint=jaeger.endpoint)
        return pipeline.last_id
    finally:
        spark.stop()


def _judge(jaeger: Jaeger, trace: dict[str, Any]) -> int:
    spans = spans_of(trace)
    for name, count in sorted(Counter(f"{span.service}: {span.name}" for span in spans).items()):
        print(f"{count:4} {name}")
    wrong = span_tree.problems(spans, TOPIC)
    print(f"{len(spans)} spans in one trace: {jaeger.link(trace['traceID'])}")
    for line in wrong:
        print(f"failed: {line}", file=sys.stderr)
    if not wrong:
        print("driver, tasks, participants, produce, append, replicate, group commit and markers: one trace, no orphan")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
