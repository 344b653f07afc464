"""What one end of a link says about the calls on it."""

from __future__ import annotations

from oncelog.link import client_core
from oncelog.link.client_core import ClientCore
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "link-answer-to-another",
        "an answer goes to the call that has its correlation id",
        edit(
            ClientCore,
            "_on_frame",
            ("call = self._open.get(frame.correlation_id)", "call = next(iter(self._open.values()), None)"),
        ),
        "simulation/test_links.py::test_each_call_gets_its_own_answer_or_a_true_error",
        "unit/sdk/link/test_client_core.py::test_answers_find_their_calls_in_any_order",
    ),
    without(
        "link-cut-unsent",
        "the outcome of a call that was under way when its link was cut is unknown",
        edit(client_core, "_for_one_call", ("if sent else", "if False else")),
        "simulation/test_links.py::test_each_call_gets_its_own_answer_or_a_true_error",
        "unit/sdk/link/test_client_core.py::test_only_what_certainly_was_not_sent_says_so_when_a_link_is_cut",
    ),
    without(
        "link-goodbye-drops",
        "a goodbye ends no call whose answer is due",
        edit(ClientCore, "_leave", ("if not self._open:", "if True:")),
        "simulation/test_links.py::test_a_server_that_stops_answers_what_it_has_begun",
        "unit/sdk/link/test_client_core.py::test_a_goodbye_leaves_open_calls_their_answers_and_fails_the_waiting_ones",
    ),
    without(
        "link-id-reused",
        "the id of a cancelled call is never used again on its link",
        edit(
            ClientCore,
            "request",
            (
                "self._last_id += 1",
                "self._last_id = min({*range(1, 9_999)} - {*self._open} - {c.correlation_id for c in self._waiting})",
            ),
        ),
        "simulation/test_links.py::test_each_call_gets_its_own_answer_or_a_true_error",
        "unit/sdk/link/test_client_core.py::test_no_id_names_two_calls",
    ),
]
