"""The two tables of states: they are whole, they end, and nothing comes back from the end."""

from __future__ import annotations

import pytest

from oncelog.link.link_states import CLIENT_TRANSITIONS, SERVER_TRANSITIONS, Incident, LinkState, Table
from tests.unit.sdk.link.link_ends import client, server

TABLES = {"client": CLIENT_TRANSITIONS, "server": SERVER_TRANSITIONS}
ORDER = list(LinkState)
CELLS = [
    (role, state, incident)
    for role, table in TABLES.items()
    for state in table
    for incident in Incident  # those that are not listed too
]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_state_can_end_and_none_goes_back(table: Table) -> None:
    assert set(table) == set(LinkState)
    for state, moves in table.items():
        assert moves[Incident.END] is LinkState.OVER
        assert all(ORDER.index(to) >= ORDER.index(state) for to in moves.values())
    assert set(table[LinkState.OVER].values()) == {LinkState.OVER}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_state_can_be_reached(table: Table) -> None:
    reached = {LinkState.HELLO}
    for _ in LinkState:
        reached |= {to for state in reached for to in table[state].values()}
    assert reached == set(LinkState)


def test_every_incident_is_of_some_use() -> None:
    listed = {incident for table in TABLES.values() for moves in table.values() for incident in moves}
    assert listed == set(Incident)


@pytest.mark.parametrize(("role", "state", "incident"), CELLS, ids=str)
def test_the_table_is_what_moves_a_link(role: str, state: LinkState, incident: Incident) -> None:
    """And an incident that it does not list changes nothing."""
    core = client() if role == "client" else server()
    moves = TABLES[role][state]
    core.state, core._moves = state, moves
    if incident in moves:
        core._move(incident)
        assert core.state is moves[incident]
        assert core._moves is TABLES[role][core.state]
    else:
        with pytest.raises(AssertionError, match=f"no {incident.value} of a link that is {state.value}"):
            core._move(incident)
        assert core.state is state
