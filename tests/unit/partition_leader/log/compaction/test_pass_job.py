"""What a pass is asked for and what it answers is the same at the other end of a channel."""

from __future__ import annotations

from oncelog_partition_leader.core.compaction.rewriting import Tally
from oncelog_partition_leader.log.compaction.pass_job import Job, Written, decode, encode
from oncelog_partition_leader.log.compaction.replacement import Replacement
from tests.unit.partition_leader.compaction_helpers import JOB


def test_a_job_is_the_same_at_the_other_end() -> None:
    values, blob = decode(JOB.encode())
    assert values.pop("do") == "look"
    assert Job.decode(values, blob) == JOB


def test_a_written_segment_is_the_same_at_the_other_end() -> None:
    tally = Tally(1, 2, 3, 4, changed=True, horizon_ms=5, held_back_ms=6, held_back_to=7, markers_gone={9, 8})
    written = Written(Replacement("t-0", 0, 10, "who"), b"\nindex\n", tally)
    values, blob = decode(written.encode())
    assert values["is"] == "written"
    assert Written.decode(values, blob) == written


def test_a_message_may_have_no_bytes() -> None:
    assert decode(encode({"is": "at", "at": 3})) == ({"is": "at", "at": 3}, b"")
