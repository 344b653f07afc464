"""Names of folders say whose log they hold; nothing else is taken for one."""

from __future__ import annotations

import pytest

from oncelog.types import PartitionId
from oncelog_partition_leader.core.log.folders import Folder, folder_name, parse_folder, parse_trashed, trash_name

ID = "0123456789abcdef0123456789abcdef"
WHERE = PartitionId(ID, 12)


@pytest.mark.parametrize("topic", ["orders", "a-b.c_d", "__transaction_state", f"named-{ID}-7", "x.quarantined-1"])
def test_a_name_is_read_as_it_was_written(topic: str) -> None:
    name = folder_name(topic, WHERE)
    assert parse_folder(name) == Folder(name, topic, WHERE)
    aside = parse_folder(f"{name}.quarantined-3")
    assert aside == Folder(f"{name}.quarantined-3", topic, WHERE, aside=True)
    trashed = parse_trashed(trash_name(name, 1_750_000_000_000))
    assert trashed is not None
    assert (trashed.folder, trashed.since_ms) == (parse_folder(name), 1_750_000_000_000)


@pytest.mark.parametrize(
    "name", [".trash", "directory.json", f"orders-{ID}", f"orders-{ID}-1.removed", "orders-12-0", ""]
)
def test_what_is_no_partitions_folder_is_left_alone(name: str) -> None:
    assert parse_folder(name) is None
    assert parse_trashed(name) is None
    assert parse_trashed(f"17.{name}") is None
