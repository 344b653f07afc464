"""What the trace of one Spark micro-batch must look like; the same for a fake collector and for a real Jaeger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.otlp_receiver import ReceivedSpan

ROOT = "spark micro-batch"


def rpc(method: str) -> str:
    """Name of a call's spans."""
    return f"oncelog.v1.{method}"


APPEND_ON_A_FOLLOWER = [
    f"INTERNAL {'replicate'}",
    f"CLIENT {rpc('PartitionLeader/Replicate')}",
    f"SERVER {rpc('PartitionLeader/Replicate')}",
    "INTERNAL log.append",
]
DECISION = [
    f"CLIENT {rpc('Coordinator/CommitTransaction')}",
    f"SERVER {rpc('Coordinator/CommitTransaction')}",
    "INTERNAL group.commit",
]
PRODUCE = [f"CLIENT {rpc('PartitionLeader/Produce')}", f"SERVER {rpc('PartitionLeader/Produce')}"]
MARKERS = [
    "INTERNAL txn.markers",
    f"CLIENT {rpc('PartitionLeader/WriteTxnMarkers')}",
    f"SERVER {rpc('PartitionLeader/WriteTxnMarkers')}",
]


def expected_paths(topic: str) -> list[list[str]]:
    """Chains of spans, from the root down, that every exactly-once micro-batch has."""
    participant = ["INTERNAL spark task", "INTERNAL txn participant"]
    join = [f"CLIENT {rpc('Coordinator/JoinTransaction')}", f"SERVER {rpc('Coordinator/JoinTransaction')}"]
    send = [*participant, f"CLIENT send {topic}", *PRODUCE]
    commit = ["INTERNAL spark commit", "INTERNAL txn commit", *DECISION]
    return [
        [*participant, *join, "INTERNAL group.commit", *PRODUCE],
        [*participant, f"PRODUCER create {topic}"],
        [*send, "INTERNAL log.append"],
        [*send, *APPEND_ON_A_FOLLOWER],
        [*commit, *PRODUCE, "INTERNAL log.append"],
        [*commit, *PRODUCE, *APPEND_ON_A_FOLLOWER],
        [*commit, *MARKERS, "INTERNAL log.append"],
        [*commit, *MARKERS, *APPEND_ON_A_FOLLOWER],
    ]


def problems(spans: Sequence[ReceivedSpan], topic: str) -> list[str]:
    """What is wrong with the spans of one trace; empty = it is whole. The orphans come first: they explain the rest."""
    known = {span.span_id: span for span in spans}
    found = [f"orphan: {s.service} {s.name}" for s in spans if s.parent_id and s.parent_id not in known]
    roots = [s for s in spans if not s.parent_id]
    if [root.name for root in roots] != [ROOT]:
        found.append(f"roots: {[root.name for root in roots]}")
    # A call may fail and be made again; work inside of a service may not.
    found += [f"failed: {s.service} {s.name} {s.attributes}" for s in spans if s.failed and s.kind != "CLIENT"]
    children: dict[str, list[ReceivedSpan]] = {}
    for span in spans:
        children.setdefault(span.parent_id, []).append(span)
    for path in expected_paths(topic):
        depth = _depth(children, [root.span_id for root in roots], path)
        if depth < len(path):
            found.append(f"missing: {' > '.join(path[: depth + 1])}")
    return found


def _depth(children: dict[str, list[ReceivedSpan]], parents: Iterable[str], path: Sequence[str]) -> int:
    """How far down a path there are spans."""
    at = list(parents)
    for depth, wanted in enumerate(path):
        at = [s.span_id for parent in at for s in children.get(parent, ()) if f"{s.kind} {s.name}" == wanted]
        if not at:
            return depth
    return len(path)


def whole(spans: Sequence[ReceivedSpan], topic: str) -> bool:
    """True when some trace of a micro-batch in `spans` is complete."""
    traces = {span.trace_id for span in spans if span.name == ROOT}
    return any(not problems([s for s in spans if s.trace_id == trace], topic) for trace in traces)
