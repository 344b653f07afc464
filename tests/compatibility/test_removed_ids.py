"""The previous version reads a shard's log from which this one removed ids, goes on with it, and is read by this one again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from oncelog_coordinator.core.limits import Limits
from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from tests.compatibility.previous_version import needs_previous, unpack, with_sources
from tests.unit.coordinator.driver import Driver

_A_LIFE: Final = """
import json, sys

from oncelog_coordinator.core.transactions import commands as cmd
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable

log = json.load(sys.stdin)
newest = {}
for key, value in log:
    newest.pop(key, None)
    newest[key] = value
table = TransactionTable()
for key, value in newest.items():
    record = table.decode(key, None if value is None else value.encode())
    if record is not None:
        table.apply(record)
now_ms = 3_000_000
table.loaded(now_ms)
table.check()
written = []
for command in (cmd.InitProducerId("t", 1_000, "", 5_000), cmd.InitProducerId("kept", 1_000, "", 0), cmd.ListIds(), cmd.Tick()):
    decision = table.decide(command, now_ms)
    for record in decision.records:
        written.append((record.key, record.encode().decode()))
        table.apply(record)
    for note in decision.notes:
        table.apply(note)
    table.check()
json.dump({"ids": sorted(table.index.entries), "orphans": sorted(table.index.orphans), "written": written}, sys.stdout)
"""


def _log_with_removed_ids() -> Driver:
    driver = Driver(Limits(transactional_id_expiration_ms=1_000, transactional_id_retention_ms=1_000))
    session = driver.init("t")
    driver.do(cmd.End(cmd.TxnName("t", session.producer_id, 1, 0), True))
    for tid, expires in (("kept", False), ("job", True)):
        batch = cmd.BatchName("app", 0, "1")
        driver.do(cmd.Commit(tid, "run", 0, batch, (), driver.fresh(), expires))
    driver.tick(1_000)
    driver.tick(1_000)
    driver.do(cmd.Commit("job-2", "run", 0, cmd.BatchName("app", 0, "1"), (), driver.fresh(), True))
    assert sorted(driver.table.index.entries) == ["job-2", "kept"]
    return driver


@needs_previous
def test_the_previous_version_goes_on_with_a_log_from_which_ids_were_removed(tmp_path: Path) -> None:
    driver = _log_with_removed_ids()
    log = [(key, None if value is None else value.decode()) for key, value in driver.log]
    command = with_sources(unpack(tmp_path), "-c", _A_LIFE)
    ran = subprocess.run(command, input=json.dumps(log), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["ids"] == ["job-2", "kept", "t"], "a removed id is not there until somebody asks for it"
    assert told["orphans"] == [], "it knows what is kept of removed ids"

    newest: dict[str, str | None] = {}
    for key, value in [*log, *told["written"]]:
        newest.pop(key, None)
        newest[key] = value
    table = TransactionTable()
    for key, value in newest.items():
        table.apply(table.decode(key, None if value is None else value.encode()))
    table.loaded(4_000_000)
    table.check()
    assert table.index.removed == driver.table.index.removed
    assert table.index.ids[5_000] == "t"
