"""docs/reference says of every option what the sources say, and what the sources say is so."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from oncelog.config import ClientConfig, ConsumerConfig, ProducerConfig, WorkerConfig
from oncelog.errors import ConfigError
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log import topic_config
from oncelog_pid_allocator.config import PidAllocatorConfig
from pyspark_oncelog.options import option_table, read_write_options
from scripts import gen_reference

SDK: tuple[type[Any], ...] = (ClientConfig, ProducerConfig, ConsumerConfig, WorkerConfig)
SPARK = {**option_table.CONNECTION, **option_table.SOURCE, **option_table.SINK}
SENTENCE = re.compile(r"[A-Z`].{15,}\.", re.DOTALL)


def rows(page: str) -> list[str]:
    """The first cell of each row of a page's tables."""
    return re.findall(r"^\| `(\w+)` \|", gen_reference.pages()[page], re.MULTILINE)


def names(kind: type[Any]) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]


def test_the_pages_are_what_the_sources_say() -> None:
    assert gen_reference.main(["--check"]) == 0, "run python -m scripts.gen_reference"


@pytest.mark.parametrize(
    ("page", "kind"), list(zip(("client.md", "producer.md", "consumer.md", "worker.md"), SDK, strict=True))
)
def test_every_option_of_the_sdk_is_there_once(page: str, kind: type[Any]) -> None:
    assert rows(page) == names(kind)


def test_every_option_of_spark_is_there_once() -> None:
    """Regression: no page named `startingOffsets`, `txnAppId` and the others."""
    assert rows("spark.md") == [*read_write_options.CONNECTION, *read_write_options.SOURCE, *read_write_options.SINK]
    assert len(rows("spark.md")) == len(set(rows("spark.md"))) == len(SPARK)


def test_every_option_of_topics_is_there_once() -> None:
    assert rows("topics.md") == sorted(topic_config.OPTIONS)


def test_every_setting_of_the_services_is_there() -> None:
    there = set(rows("services.md"))
    for kind in (BrokerConfig, CoordinatorConfig, PidAllocatorConfig):
        assert set(names(kind)) <= there
    assert there == {name for kind in (BrokerConfig, CoordinatorConfig, PidAllocatorConfig) for name in names(kind)}


@pytest.mark.parametrize("kind", SDK)
def test_every_field_of_the_sdk_has_a_sentence_of_its_own(kind: type[Any]) -> None:
    """Regression: no page named the options, and their fields had no docstrings."""
    written = gen_reference.docstrings(gen_reference.SDK_SOURCE, kind.__name__)
    assert list(written) == names(kind)
    meanings = {name: gen_reference.documented(name, text).meaning for name, text in written.items()}
    assert [name for name, text in meanings.items() if not SENTENCE.fullmatch(text)] == []
    assert len(set(meanings.values())) == len(meanings)


def test_every_other_option_has_a_sentence_too() -> None:
    others = {name: option.meaning for name, option in SPARK.items()} | dict(topic_config.MEANING)
    assert [name for name, text in others.items() if not SENTENCE.fullmatch(text)] == []
    for kind in (BrokerConfig, CoordinatorConfig, PidAllocatorConfig):
        assert [row.name for row in kind.describe("any") if len(row.doc.split()) < 3] == []


def test_a_field_without_a_docstring_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "config.py"
    source.write_text('class C:\n    """Of C."""\n    a: int = 1\n    b: int = 2\n    """Of b."""\n    c: int = 3\n')
    assert gen_reference.docstrings(source, "C") == {"a": "", "b": "Of b.", "c": ""}


def test_a_docstring_is_taken_apart() -> None:
    found = gen_reference.documented("batch_size", "What is\n    full. Unit: bytes. Kafka: `batch.size`.")
    assert found == ("What is full.", "bytes", "batch.size")
    assert gen_reference.documented("linger_ms", "How long.") == ("How long.", "ms", "")


def test_numbers_at_the_bounds_of_the_sdk_are_legal_and_the_next_ones_are_not() -> None:
    found = 0
    for kind in SDK:
        for name, *_, legal, _, _, _ in gen_reference.sdk_rows(kind):
            option = name.strip("`")
            bound, bounds = re.search(r"at least (\d+)", legal), re.search(r"(\d+) to (\d+)", legal)
            steps = {int(bound[1]): -1} if bound else {}
            steps |= {int(bounds[1]): -1, int(bounds[2]): 1} if bounds else {}
            for legal_number, step in steps.items():
                found += 1
                assert getattr(kind(**{option: legal_number}), option) == legal_number
                with pytest.raises(ConfigError, match=option):
                    kind(**{option: legal_number + step})
    assert found > 20


@pytest.mark.parametrize("name", [name for name, option in SPARK.items() if option.default])
def test_a_default_of_spark_may_be_given_and_changes_nothing(name: str) -> None:
    for of, parse in (
        (read_write_options.SOURCE, gen_reference.parse_source),
        (read_write_options.SINK, gen_reference.parse_sink),
    ):
        if name in (*read_write_options.CONNECTION, *of):
            assert parse({name: SPARK[name].default}) == parse({})


def test_every_number_that_spark_is_given_by_default_is_told() -> None:
    known = {"batchbytes", "leasems", "maxdurationms", "minrowspertask"}
    sink, source = gen_reference.parse_sink({}), gen_reference.parse_source({})
    told = {name.lower() for name, option in SPARK.items() if option.default}
    for parsed in (sink, source):
        assert dataclasses.is_dataclass(parsed)
        numbers = {f.name: getattr(parsed, f.name) for f in dataclasses.fields(parsed)}
        high = {name.replace("_", "") for name, value in numbers.items() if type(value) is int and value > 0}
        assert high - {"maxtriggerdelayms"} <= told
        known -= high
    assert known == set()
