"""Commands about channels are values, and in a full queue they leave the places of members, markers and leases alone."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from oncelog_coordinator.core.channels.channel_commands import (
    Leader,
    OpenChannelPartition,
    SeeChannels,
    SendChannelAcks,
    WriteChannelState,
)
from oncelog_coordinator.core.channels.channel_records import ChannelPartitionId
from oncelog_coordinator.core.offsets.offset_commands import GroupMarker
from oncelog_coordinator.core.transactions.commands import TxnName
from tests.unit.coordinator.channel_driver import CHANNEL, TOPIC, ranges

LEADER = Leader(ChannelPartitionId(CHANNEL, 0), TOPIC, 1)
COMMANDS: list[Any] = [
    OpenChannelPartition(LEADER),
    WriteChannelState(LEADER, 1, 0),
    SendChannelAcks(TxnName("t", 7, 1, 0), 3, LEADER, 0, ranges((0, 0))),
    SeeChannels(frozenset()),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_is_a_value_and_not_vital(command: Any) -> None:
    assert not command.is_vital
    with pytest.raises(FrozenInstanceError):
        setattr(command, fields(command)[0].name, None)
    assert GroupMarker.is_vital, "a marker of the same group has a place of its own"
