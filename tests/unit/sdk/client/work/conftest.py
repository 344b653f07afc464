"""A scripted cluster with channels."""

from __future__ import annotations

import pytest

from tests.unit.sdk.client.fake_cluster import FakeCluster
from tests.unit.sdk.client.work.fake_channels import FakeChannels


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def channels(cluster: FakeCluster) -> FakeChannels:
    return FakeChannels(cluster)
