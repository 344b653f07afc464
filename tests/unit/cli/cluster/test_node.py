"""`oncelog node`: exit codes, and brokers that are gone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from oncelog.client.admin.operations_admin import BrokerLoad
from oncelog_cli.cluster.node import NOT_IN_TIME, _tell
from oncelog_cli.main import main
from oncelog_cli.terminal.output import Printer


@pytest.mark.parametrize(
    ("state", "code"), [("drained", 0), ("skipped", 0), ("nothing to do", 0), ("draining", 3), ("not draining", 3)]
)
def test_exit_codes(state: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"kind": "broker", "node": 2, "state": state, "reason": "why"}
    assert _tell(row, Printer("text")) == code
    out = capsys.readouterr().out
    assert ("NOT DRAINED IN TIME" in out) == (code == NOT_IN_TIME)


class Loads:
    """The administration of a cluster that knows one broker, which holds nothing."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    async def broker_loads(self) -> list[BrokerLoad]:
        return [BrokerLoad(1, True, False, 0, 0, 0)]

    async def decommission(self, brokers: list[int]) -> list[BrokerLoad]:
        self.asked.append(brokers)
        return await self.broker_loads()


@pytest.mark.parametrize(("brokers", "asked"), [(["2", "1"], [[1]]), (["2", "3"], [])])
def test_brokers_that_are_gone_are_fine_where_that_is_said(
    monkeypatch: pytest.MonkeyPatch, brokers: list[str], asked: list[list[int]]
) -> None:
    """A hook of the chart asks again for brokers that an earlier one has taken away."""
    admin = Loads()
    client = SimpleNamespace(admin=admin)
    monkeypatch.setattr("oncelog_cli.cluster.node.with_client", lambda _args, work, **_: asyncio.run(work(client)))
    assert main(["node", "decommission", *brokers, "--missing-ok", "--timeout", "1"]) == 0
    assert admin.asked == asked
