"""A producer that needs another identity asks for one, whatever became of the question before."""

from __future__ import annotations

from oncelog import errors
from tests.unit.sdk.client.fake_cluster import TOPIC, FakeCluster


def test_a_renewal_that_was_dropped_before_it_began_can_be_asked_for_again() -> None:
    """Its `finally` never ran, so nobody asked for an identity any more."""
    cluster = FakeCluster()

    async def work(_: FakeCluster) -> None:
        async with cluster.client() as client, client.producer() as producer:
            await producer.send_and_wait(TOPIC, b"v", partition=0)
            sender = producer._sender
            (partition, window), before = next(iter(sender._windows.items())), cluster.count("InitProducerId")
            window.burnt = sender.identity
            assert not sender._give_identity(partition, window)
            sender.drop(errors.TxnEndedError("over"))
            await cluster.pause()
            assert cluster.count("InitProducerId") == before
            assert not sender._give_identity(partition, window)
            await cluster.pause()
            assert cluster.count("InitProducerId") == before + 1

    cluster.run(work)
