"""docs/coming-from-kafka.md names only what exists, and says of nothing that it is missing when it is there."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oncelog
from oncelog.client.admin.admin import Admin
from oncelog.config import COMPRESSION_TYPES, ClientConfig, ConsumerConfig, ProducerConfig, load
from oncelog.core.batch.hashing import partition_for_key
from oncelog_cli.main import build_parser
from oncelog_coordinator.config import CoordinatorConfig
from oncelog_partition_leader.config import BrokerConfig
from oncelog_partition_leader.log import topic_config
from pyspark_oncelog.options.read_write_options import SinkOptions, SourceOptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coming-from-kafka.md").read_text()
HOMES: dict[str, type[Any]] = {
    "client.admin": Admin,
    "client": oncelog.Client,
    "producer": oncelog.Producer,
    "consumer": oncelog.Consumer,
    "txn": oncelog.Transaction,
    "delivery": oncelog.Delivery,
}
CALLS = sorted(set(re.findall(rf"\b({'|'.join(HOMES)})\.(\w+)\(", PAGE)))
VERBS = sorted(set(re.findall(r"`oncelog ([a-z][a-z -]*?)(?: --(?:\w|-)+)?`", PAGE)))
MISSING = re.findall(r"`([\w.]+)`", PAGE[PAGE.index("Options of Kafka's clients that do not exist") :])
KINDS = (ClientConfig, ProducerConfig, ConsumerConfig)


def verbs(parser: argparse.ArgumentParser, words: str = "") -> Iterator[str]:
    """Every verb that runs something, without the program's name."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield words.strip()
    for action in inner:
        for name, child in action.choices.items():
            yield from verbs(child, f"{words} {name}")


def test_the_page_names_calls_and_verbs_at_all() -> None:
    assert len(CALLS) > 45
    assert len(VERBS) > 30
    assert len(MISSING) > 10


@pytest.mark.parametrize(("home", "name"), CALLS)
def test_a_call_that_it_names_exists(home: str, name: str) -> None:
    assert hasattr(HOMES[home], name)


def test_every_verb_that_it_names_exists() -> None:
    assert set(VERBS) <= set(verbs(build_parser()))


def test_every_link_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_every_option_that_it_names_exists() -> None:
    """Names with underscores and a unit, in front of the lists of what is not there."""
    known = {name for kind in (*KINDS, BrokerConfig, CoordinatorConfig) for name in kind.__dataclass_fields__}
    known |= set(topic_config.OPTIONS)
    named = set(re.findall(r"`(\w+_(?:ms|bytes|size|replicas|mode|policy|id))\b[^`(]*`", PAGE))
    assert len(named) > 12
    assert named <= known


@pytest.mark.parametrize("name", MISSING)
def test_an_option_that_is_said_to_be_missing_is_refused(name: str) -> None:
    """Regression: there was no list of what is not there."""
    for kind in KINDS:
        with pytest.raises(oncelog.ConfigError, match=f"unknown option `{name}`"):
            load(kind, {name: "1"})


def test_defaults_are_those_that_it_tells() -> None:
    client, producer, consumer = ClientConfig(), ProducerConfig(), ConsumerConfig()
    assert (consumer.isolation_level, consumer.enable_auto_commit) == ("read_committed", False)
    assert (producer.acks, producer.enable_idempotence) == ("all", True)
    assert (producer.batch_size, producer.linger_ms) == (1 << 20, 0)
    assert (client.request_timeout_ms, client.default_api_timeout_ms) == (30_000, 60_000)
    assert (producer.delivery_timeout_ms, producer.max_block_ms) == (120_000, 60_000)
    assert producer.transaction_timeout_ms == 60_000
    assert BrokerConfig().min_insync_replicas == 2
    assert CoordinatorConfig().transactional_id_expiration_ms == 7 * 86_400_000
    assert CoordinatorConfig().transactional_id_retention_ms == 7 * 86_400_000
    assert COMPRESSION_TYPES == ("none", "lz4", "zstd")


def test_options_of_spark_are_refused_and_taken_as_it_tells() -> None:
    reading = {"kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SSL", "subscribe": "orders"}
    assert SourceOptions.parse(reading, streaming=True).read_committed
    assert SinkOptions.parse({"kafka.bootstrap.servers": "a:1", "topic": "orders"}).exactly_once
    with pytest.raises(oncelog.ConfigError, match=r"option kafka\.group\.id is not taken: .*commitGroup"):
        SourceOptions.parse({**reading, "kafka.group.id": "g"}, streaming=True)


def test_options_of_compaction_have_kafkas_names_and_defaults() -> None:
    options = {"cleanup.policy": "compact", "delete.retention.ms": "5", "min.cleanable.dirty.ratio": "0.2"}
    assert topic_config.canonical(options)["min_cleanable_dirty_ratio"] == "0.2"
    log = topic_config.TopicConfig().log
    assert (log.delete_retention_ms, log.min_cleanable_dirty_ratio, log.min_compaction_lag_ms) == (86_400_000, 0.5, 0)


def test_the_partition_of_a_key_is_kafkas_for_those_who_ask() -> None:
    """Kafka's murmur2 of b"21" is -973932308, of which its partitioner keeps 31 bits."""
    kafkas = (-973932308 & 0x7FFFFFFF) % 10
    assert partition_for_key(b"21", 10, ProducerConfig().key_hash) != kafkas
    assert partition_for_key(b"21", 10, ProducerConfig(partitioner="murmur2").key_hash) == kafkas
    sink = SinkOptions.parse({"bootstrapServers": "a:1", "topic": "orders", "partitioner": "murmur2"})
    assert partition_for_key(b"21", 10, sink.partitioner) == kafkas
