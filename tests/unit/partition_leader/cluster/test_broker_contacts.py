"""Contacts follow the registrations, tell news, and take no stillness of their own for the others' silence."""

from __future__ import annotations

from oncelog.types import BrokerRef
from oncelog_partition_leader.cluster.broker_contacts import Contacts
from oncelog_partition_leader.config import BrokerConfig
from oncelog_runtime.metadata.cluster_keys import Broker, broker_key
from oncelog_runtime.metadata.cluster_view import ClusterView
from oncelog_runtime.ports import KeyValue

A = BrokerRef(1, 11)
CONFIG = BrokerConfig(node_id=0)
SILENCE_MS = CONFIG.peer_silence_max_ms


class FakeClock:
    """Goes as the test says."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def started() -> tuple[Contacts, FakeClock, list[BrokerRef]]:
    """Broker 0; broker 1 is registered and has answered once."""
    clock, view, news = FakeClock(), ClusterView(), list[BrokerRef]()
    contacts = Contacts(CONFIG, view, clock)
    contacts.listen(news.append)
    view.learn([KeyValue(broker_key(1), Broker("b:1", "", "n", "", "").encode(), A.incarnation)])
    contacts.answered(A)
    return contacts, clock, news


def test_news_is_who_was_not_heard_before() -> None:
    contacts, clock, news = started()
    contacts.answered(A)
    assert news == [A]
    clock.ms = SILENCE_MS
    contacts.answered(A)
    assert news == [A, A]


def test_a_late_tick_means_that_this_process_stood_still() -> None:
    contacts, clock, _ = started()
    clock.ms = 10_000
    contacts.tick()
    assert contacts.heard(A)
    assert not contacts.is_minority()


def test_ticks_in_time_take_nothing_from_the_silence() -> None:
    contacts, clock, _ = started()
    for _ in range(SILENCE_MS // CONFIG.tick_ms):
        clock.ms += CONFIG.tick_ms
        contacts.tick()
    assert not contacts.heard(A)
    assert contacts.silent(SILENCE_MS - 1) == [A]
