"""What the tests of writes share: a client without a cluster."""

from __future__ import annotations

import pytest

from pyspark_oncelog import preflight
from pyspark_oncelog.sink import committing
from pyspark_oncelog.worker import worker_client
from tests.unit.spark.fakes import FakeClient


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()
    monkeypatch.setattr(worker_client, "client_for", lambda _connection: fake)
    monkeypatch.setattr(committing, "client_for", lambda _connection: fake)
    preflight._known_topics.clear()
    return fake
