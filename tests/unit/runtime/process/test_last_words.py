"""What `oncelog up` tells of a process that ended (on used ports, for example) is one line, without Go's stack."""

from __future__ import annotations

import json

import pytest

from oncelog_runtime.process.last_words import last_words

ETCD = json.dumps({
    "level": "fatal", "ts": "2026-11-23T03:18:01Z", "caller": "etcdmain/etcd.go:203", "msg": "discovery failed",
    "error": "listen tcp 127.0.0.1:2379: bind: address already in use", "stacktrace": "go.etcd.io/etcd\n\t/go/src/x.go:1",
})  # fmt: skip
SAID = "discovery failed: listen tcp 127.0.0.1:2379: bind: address already in use"
FAILED = '{"level": "ERROR", "message": "the process failed", "stack": "Traceback"}'
OURS = "oncelog partition_leader: port 9092 is taken: choose another"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], ""),
        (["", "  "], ""),
        (["one", "two", ""], "two"),
        ([ETCD], SAID),
        ([ETCD, '{"level": "info", "msg": "closing"}'], SAID),
        ([FAILED, OURS], "port 9092 is taken: choose another"),
        (['{"level": "CRITICAL", "message": "an invariant broke", "stack": "Traceback"}'], "an invariant broke"),
        (["[1]", "3", "x" * 999], "x" * 300 + "..."),
    ],
)  # fmt: skip
def test_one_line_says_why(lines: list[str], said: str) -> None:
    assert last_words(lines) == said
