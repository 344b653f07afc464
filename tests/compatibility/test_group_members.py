"""The previous version reads a group shard's log with members in it, goes on with the offsets, and this one reads it again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, FetchOffsets, Member
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from tests.compatibility.previous_version import needs_previous, unpack, with_sources
from tests.unit.coordinator.group_driver import GROUP, Groups, Reader, settle, topic_id

A_LIFE: Final = """
import json, sys

from oncelog_coordinator.core.groups.shard_table import GroupShardTable  # where the previous version has it
from oncelog_coordinator.core.offsets import offset_commands as cmd
from oncelog_coordinator.core.offsets.offset_records import OffsetValue

newest = {}
for key, value in json.load(sys.stdin):
    newest.pop(key, None)
    newest[key] = value
table = GroupShardTable()
for key, value in newest.items():
    record = table.decode(key, None if value is None else value.encode())
    if record is not None:
        table.apply(record)
table.loaded(3_000_000)
table.check()
written = []
command = cmd.CommitOffsets(cmd.Member(*json.loads(sys.argv[1])), 0, (OffsetValue(sys.argv[2], "t", 0, 9),))
for record in table.decide(command, 3_000_000).records:
    written.append((record.key, record.encode().decode()))
    table.apply(record)
table.check()
json.dump(written, sys.stdout)
"""


@needs_previous
def test_the_previous_version_goes_on_with_a_log_in_which_groups_have_members(tmp_path: Path) -> None:
    groups = Groups()
    a, b = Reader(groups, "a"), Reader(groups, "b")
    a.join()
    b.join()
    settle(groups, a, b)
    gone = Reader(groups, "c")
    gone.join()
    gone.leave()
    groups.wait(700_000)  # b and a are out, and the id of c is forgotten: there are tombstones
    again = Reader(groups, "d")
    again.join()
    groups.do(CommitOffsets(Member(GROUP, "d", again.epoch), 1, (OffsetValue(topic_id("t"), "t", 0, 5),)))
    log = [(key, None if value is None else value.decode()) for key, value in groups.log]
    assert any(value is None for _, value in log)
    member = json.dumps([GROUP, "d", again.epoch])
    command = with_sources(unpack(tmp_path), "-c", A_LIFE, member, topic_id("t"))
    ran = subprocess.run(command, input=json.dumps(log), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    written = json.loads(ran.stdout)
    assert [key.split(":")[0] for key, _ in written] == ["offset"]
    groups.log += [(key, value.encode()) for key, value in written]
    groups.fail_over()
    assert set(groups.owned()) == {"d"}
    again.beat()
    (found,) = groups.do(FetchOffsets(GROUP))
    assert found.offset == 9, "what the previous version committed is there"
