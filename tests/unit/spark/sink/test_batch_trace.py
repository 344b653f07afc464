"""One trace for a batch: chosen on the driver, carried by the writer and by the messages, ended by whoever commits."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import ConfigError, IllegalStateError, NetworkError
from oncelog.trace.trace_context import TRACEPARENT
from pyspark_oncelog import preflight
from pyspark_oncelog.options.read_write_options import SinkOptions
from pyspark_oncelog.sink import batch_trace, committing
from pyspark_oncelog.sink.batch_trace import NO_TRACE, BatchTrace, begin, connection_of
from pyspark_oncelog.sink.messages import TaskMessage, trace_of
from pyspark_oncelog.sink.stream_writer import OncelogStreamWriter
from pyspark_oncelog.sink.task_writer import write_task
from pyspark_oncelog.worker import worker_client
from tests.spans import Recorder, failed, recording_tracer
from tests.unit.spark.fakes import FakeClient

IDENTITY = SharedBatch("spark-q", "run", "q", 7, "a")
ENDPOINT = "http://collector:4317"


def options(**more: str) -> SinkOptions:
    return SinkOptions.parse({"bootstrapServers": "a:1", "topic": "t", "otlpEndpoint": ENDPOINT, **more})


class World:
    """The client of this process, and what it records."""

    def __init__(self) -> None:
        self.client: Any = FakeClient()
        self.tracer, self.spans = recording_tracer()
        self.client.tracer = self.tracer
        self.connections: list[str] = []
        self.contexts: list[str] = []

    def client_for(self, connection: Any) -> Any:
        self.connections.append(connection.otlp_endpoint)
        self.client.tracer = self.tracer if connection.otlp_endpoint else None
        self.contexts.append(TRACEPARENT.get())
        return self.client


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(worker_client, "client_for", made.client_for)
    monkeypatch.setattr(committing, "client_for", made.client_for)
    preflight._known_topics.clear()
    return made


def write(world: World, trace: BatchTrace, *values: str, **more: str) -> TaskMessage:
    rows = pa.RecordBatch.from_pydict({"value": list(values)})
    return write_task(options(**more), IDENTITY, "42", [rows], trace)


def root_of(spans: Recorder) -> Any:
    return spans.one("spark micro-batch")


def test_nothing_is_traced_without_an_endpoint() -> None:
    plain = SinkOptions.parse({"bootstrapServers": "a:1", "topic": "t"})
    assert begin(plain, 5, 1, 2) is NO_TRACE


@pytest.mark.parametrize(("arg", "flag"), [("1", "01"), ("0", "00")])
def test_the_driver_chooses_the_root_and_whether_it_is_recorded(arg: str, flag: str) -> None:
    trace = begin(options(traceSampler="traceidratio", traceSamplerArg=arg), 5, 0xAB, 0xCD)
    assert trace == BatchTrace(f"00-{0xAB:032x}-{0xCD:016x}-{flag}", 5)
    chosen = options(traceSampler="traceidratio", traceSamplerArg=arg)
    assert connection_of(chosen, trace).otlp_endpoint == (ENDPOINT if flag == "01" else "")


def test_the_writer_is_pickled_with_it() -> None:
    trace = begin(options(), 5, 1, 2)
    again = pickle.loads(pickle.dumps(OncelogStreamWriter(options(), "a", trace)))
    assert again._trace == trace


def test_task_and_commit_are_spans_below_a_root_that_the_commit_writes(world: World) -> None:
    trace = begin(options(), world.tracer.now_ns() - 1_000_000, 0xAB, 0xCD)
    messages = [write(world, trace, "1", "2"), write(world, trace, "3")]
    assert {message.trace for message in messages} == {trace}
    world.client.committed_rows = 3
    committing.commit_batch(options(), messages, 7)
    root, commit = root_of(world.spans), world.spans.one("spark commit")
    tasks = [span for span in world.spans.ended if span.name == "spark task"]
    assert (root.context.trace_id, root.context.span_id) == (0xAB, 0xCD)
    assert root.parent is None
    assert root.start_time == trace.begin_ns
    assert [span.parent.span_id for span in (*tasks, commit)] == [0xCD] * 3
    assert tasks[0].attributes["oncelog.rows"] == 2
    assert tasks[0].attributes["oncelog.result"] == "joined"
    assert root.attributes["oncelog.spark.app_id"] == "q"
    assert root.attributes["oncelog.spark.tasks"] == 2
    assert world.spans.open == {}
    assert TRACEPARENT.get() == ""


def test_a_batch_that_is_not_recorded_makes_no_spans_and_says_so_to_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    join = world.client.join_transaction

    def joining(*names: Any, **more: Any) -> Any:
        seen.append(TRACEPARENT.get())
        return join(*names, **more)

    monkeypatch.setattr(world.client, "join_transaction", joining)
    trace = begin(options(traceSampler="always_off"), 5, 0xAB, 0xCD)
    committing.commit_batch(options(), [write(world, trace, "1")], 7)
    assert world.spans.ended == []
    assert seen == [trace.context]
    assert set(world.connections) == {""}


def test_a_task_that_fails_and_an_abort_say_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = begin(options(), world.tracer.now_ns(), 0xAB, 0xCD)
    message = write(world, trace, "1")

    def refuse(*_names: Any, **_more: Any) -> Any:
        raise NetworkError("gone")

    monkeypatch.setattr(world.client, "join_transaction", refuse)
    with pytest.raises(NetworkError):
        write(world, trace, "2")
    committing.abort_batch(options(), [message, None])
    good, bad = (span for span in world.spans.ended if span.name == "spark task")
    assert (failed(good), failed(bad)) == (False, True)
    assert failed(root_of(world.spans))
    assert not failed(world.spans.one("spark abort"))
    assert world.spans.open == {}


def test_messages_that_contradict_each_other_fail_the_root(world: World) -> None:
    trace = begin(options(), world.tracer.now_ns(), 0xAB, 0xCD)
    message = write(world, trace, "1")
    with pytest.raises(IllegalStateError):
        committing.commit_batch(options(), [message, None], 7)
    assert failed(root_of(world.spans))


def test_the_first_message_that_knows_names_the_trace() -> None:
    assert trace_of([None]) is NO_TRACE


@pytest.mark.parametrize(
    "wrong",
    [
        {"otlpEndpoint": "collector:4317"},
        {"traceSampler": "sometimes"},
        {"traceSamplerArg": "2"},
        {"traceSamplerArg": "x"},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        options(**wrong)


def test_flushing_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(world.tracer, "flush", asked.append)
    write(world, begin(options(), 5, 1, 2), "1")
    assert asked == [batch_trace._FLUSH_MS]


def test_a_commit_and_an_abort_send_their_spans_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sending may take a second."""
    asked: list[int] = []
    trace = begin(options(), 5, 1, 2)
    message = write(world, trace, "1")
    monkeypatch.setattr(world.tracer, "flush", asked.append)
    committing.commit_batch(options(), [message], 7)
    assert asked == [batch_trace._FLUSH_MS]
    committing.abort_batch(options(), [message, None])
    assert asked == [batch_trace._FLUSH_MS] * 2
