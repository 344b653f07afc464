"""The previous version reads a group shard's log with channels in it, goes on with the offsets, and this one reads it again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from oncelog_coordinator.core.channels.channel_records import Retry
from oncelog_coordinator.core.offsets.offset_commands import CommitOffsets, FetchOffsets, Member
from oncelog_coordinator.core.offsets.offset_records import OffsetValue
from tests.compatibility.previous_version import needs_previous, unpack, with_sources
from tests.compatibility.test_group_members import A_LIFE
from tests.unit.coordinator.channel_driver import Led, outcome
from tests.unit.coordinator.group_driver import Groups, topic_id


@needs_previous
def test_the_previous_version_goes_on_with_a_log_in_which_there_are_channels(tmp_path: Path) -> None:
    groups = Groups()
    here = Led(groups).begin()
    here.write(0, (5, 6), (3_000, 3_000), retried=(Retry(7, 2, 500),))
    here.seek(2)
    here.write(0, (9, 9), retried=(Retry(8, 1),))
    here.ack(1, (2, 3))
    here.ack(2, (4, 4))
    groups.do(CommitOffsets(Member("g", "", -1), 1, (OffsetValue(topic_id("t"), "t", 0, 5),)))
    groups.wait(1_000)
    before = here.open()
    log = [(key, None if value is None else value.decode()) for key, value in groups.log]
    assert any(value is None for _, value in log)
    command = with_sources(unpack(tmp_path), "-c", A_LIFE, json.dumps(["g", "", -1]), topic_id("t"))
    ran = subprocess.run(command, input=json.dumps(log), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    groups.log += [(key, value.encode()) for key, value in json.loads(ran.stdout)]
    groups.fail_over()
    assert here.open() == before
    here.mark(1, commit=True)
    assert outcome(here.open()) == (4, {9})
    (found,) = groups.do(FetchOffsets("g"))
    assert found.offset == 9, "what the previous version committed is there"
