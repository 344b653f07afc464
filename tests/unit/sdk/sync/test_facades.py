"""The façade without `await` is what scripts/gen_sync.py writes from the asynchronous classes, and what it promises is so."""

from __future__ import annotations

import ast
import inspect
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from oncelog import sync
from oncelog.client.defaults import SystemClock
from scripts import gen_sync
from scripts.api_reader import is_for_us
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster

FACADES = {facade.of.__name__: facade for facade in gen_sync.FACADES.values()}
SHARED = sorted(
    (name, member)
    for name, facade in FACADES.items()
    for member in dir(facade.of)
    if not member.startswith("_") and callable(getattr(facade.of, member)) and hasattr(getattr(sync, name), member)
)


class Sample:
    """One method of each kind."""

    async def waits(self, items: Iterable[int] | None, *more: int, at_most: int = 3) -> int:
        """Waits: `async with it`."""
        return at_most

    def is_plain(self) -> None:
        """Does not wait."""

    def is_quick(self) -> int:
        """Any thread may ask."""
        return 1

    async def rows(self) -> AsyncIterator[int]:
        """One after the other."""
        yield 1

    @property
    def count(self) -> int:
        """How many."""
        return 1

    async def again(self) -> Sample:
        """The same one."""
        return self

    async def speaks(self) -> None:
        """`await` it."""


def text_of(member: str) -> str:
    """What is generated for a method of `Sample`."""
    facade = gen_sync.Facade(Sample, "Wrapper[AsyncSample]", "A sample.", direct=("is_quick",))
    tree = ast.parse(Path(__file__).read_text())
    (kind,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Sample"]
    (node,) = [node for node in kind.body if isinstance(node, gen_sync.Function) and node.name == member]
    return gen_sync.method(node, Sample, facade, ["Sample"]).text


@pytest.fixture
def client() -> Iterator[sync.Client]:
    with sync.Client(BROKERS, transport=FakeCluster(), clock=SystemClock(), random=Random(1)) as made:
        yield made


def test_the_files_are_what_the_asynchronous_classes_say() -> None:
    assert gen_sync.main(["--check"]) == 0, "run python -m scripts.gen_sync"


@pytest.mark.parametrize("name", sorted(FACADES))
def test_what_is_public_is_in_the_facade_or_left_out_by_name(name: str) -> None:
    facade, kind = FACADES[name], getattr(sync, name)
    public = {m for m in dir(facade.of) if not m.startswith("_") and not is_for_us(getattr(facade.of, m))}
    assert public - {*dir(kind)} == {*facade.left_out}


@pytest.mark.parametrize(("name", "member"), SHARED)
def test_a_method_takes_what_the_asynchronous_one_takes(name: str, member: str) -> None:
    ours = inspect.signature(getattr(getattr(sync, name), member))
    theirs = inspect.signature(getattr(FACADES[name].of, member))
    assert ours.parameters == theirs.parameters


def test_a_client_is_made_from_what_the_asynchronous_one_is_made_from() -> None:
    theirs = inspect.signature(FACADES["Client"].of)
    assert inspect.signature(sync.Client).parameters == theirs.parameters


@pytest.mark.parametrize(("name", "member"), SHARED)
def test_no_docstring_speaks_of_an_event_loop_that_the_reader_has_not(name: str, member: str) -> None:
    doc = getattr(getattr(sync, name), member).__doc__
    assert doc
    assert "await" not in doc


def test_an_iterable_is_read_in_the_thread_of_the_caller(client: sync.Client) -> None:
    """It may use this very client, which the thread of the event loop could not wait for."""
    threads: list[str] = []

    def partitions() -> Iterator[tuple[str, int]]:
        threads.append(threading.current_thread().name)
        yield client.admin.describe_topic(TOPIC).name, 0

    with client.consumer() as consumer:
        consumer.assign(partitions())
        assert [p.partition for p in consumer.assignment()] == [0]
    assert threads == [threading.current_thread().name]


def test_what_a_producer_makes_is_a_facade_of_its_own(client: sync.Client) -> None:
    with client.producer(transactional_id="t") as producer:
        assert type(producer.begin_transaction()) is sync.Transaction


# ---------------------------------------------------------------- the generator


@pytest.mark.parametrize(
    ("member", "body"),
    [
        (
            "waits",
            "return self._run(self._inner.waits(None if items is None else list(items), *more, at_most=at_most))",
        ),
        ("is_plain", "self._call(self._inner.is_plain)"),
        ("is_quick", "return self._inner.is_quick()"),
        ("rows", "return self._each(self._inner.rows())"),
        ("count", "return self._inner.count"),
        ("again", "self._run(self._inner.again())\n    return self"),
    ],
)
def test_each_kind_of_method_has_its_way(member: str, body: str) -> None:
    assert text_of(member).endswith(f'"""\n    {body}')


def test_the_head_is_that_of_the_source() -> None:
    head = "def waits(self, items: Iterable[int] | None, *more: int, at_most: int = 3) -> int:"
    assert text_of("waits").splitlines()[:2] == [head, '    """Waits: `with it`."""']
    assert text_of("rows").splitlines()[0] == "def rows(self) -> Iterator[int]:"


def test_a_docstring_without_words_for_the_facade_is_refused() -> None:
    with pytest.raises(ValueError, match="speaks of an event loop"):
        text_of("speaks")
