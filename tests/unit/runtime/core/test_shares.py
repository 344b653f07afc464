"""Who shares the memory of a process: clients leave room to services, a peer to others, a connection to its like."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError, ResourceExhaustedError
from oncelog_runtime.core.shares import MemoryLimits, Shares

LIMITS = MemoryLimits(
    max_message_bytes=100,
    request_bytes=800,
    answer_bytes=400,
    request_bytes_per_connection=300,
    answer_bytes_per_connection=150,
)


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        ({"request_bytes": 299}, "request_bytes"),
        ({"answer_bytes": 299}, "answer_bytes"),
        ({"request_bytes_per_connection": 99}, "request_bytes"),
        ({"answer_bytes_per_connection": 99}, "answer_bytes"),
    ],
)
def test_limits_under_which_somebody_could_never_get_his_largest_message_are_refused(
    limits: dict[str, int], setting: str
) -> None:
    legal = {"request_bytes": 300, "answer_bytes": 300, "request_bytes_per_connection": 100}
    MemoryLimits(100, **{**legal, "answer_bytes_per_connection": 100})
    with pytest.raises(ConfigError) as caught:
        MemoryLimits(100, **{**legal, "answer_bytes_per_connection": 100, **limits})
    assert caught.value.context["setting"] == setting


def test_one_connection_of_a_peer_leaves_room_to_its_others() -> None:
    shares = Shares(LIMITS)
    one = shares.enter("ann", "c1", is_internal=False)
    other = shares.enter("ann", "c2", is_internal=False)
    one.requests.reserve(300)
    with pytest.raises(ResourceExhaustedError):
        one.requests.reserve(1)
    other.requests.reserve(100)
    with pytest.raises(ResourceExhaustedError):
        other.requests.reserve(1)  # the peer has half of all
    shares.enter("bob", "c3", is_internal=False).requests.reserve(200)


def test_clients_leave_a_quarter_to_the_clusters_own_services() -> None:
    shares = Shares(LIMITS)
    for peer in ("ann", "bob"):
        shares.enter(peer, "c", is_internal=False).requests.reserve(300)
    assert shares.enter("eve", "c", is_internal=False).requests.available_bytes == 0
    assert shares.enter("eve", "c", is_internal=True).requests.available_bytes == 200
    assert shares.enter("eve", "c", is_internal=False).answers.available_bytes == 150, "answers are another tree"


def test_a_connection_lives_while_somebody_uses_it_and_its_bytes_stay_counted() -> None:
    shares = Shares(LIMITS)
    share = shares.enter("ann", "c", is_internal=False)
    assert shares.enter("ann", "c", is_internal=False) is share
    share.requests.reserve(300)
    shares.leave("ann", "c", is_internal=False)
    assert shares.enter("ann", "c", is_internal=False) is share
    for _ in range(2):
        shares.leave("ann", "c", is_internal=False)
    assert shares.peers == 0
    assert shares.requests.taken_bytes == 300
    again = shares.enter("ann", "c", is_internal=False)
    assert again is not share
    share.requests.release(300)
    assert shares.requests.is_idle
