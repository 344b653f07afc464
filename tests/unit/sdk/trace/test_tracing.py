"""Contexts, samplers, and who is the parent of gathered work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog import errors
from oncelog.trace import tracing
from oncelog.trace.tracing import Sampler, gathered, is_sampled, parse_traceparent

A = "00-" + "a" * 32 + "-" + "1" * 16 + "-01"
B = "00-" + "b" * 32 + "-" + "2" * 16 + "-03"
UNSAMPLED = "00-" + "c" * 32 + "-" + "3" * 16 + "-00"


class TestContexts:
    def test_the_last_digit_says_whether_it_is_recorded(self) -> None:
        assert is_sampled(A)
        assert is_sampled(B)
        assert not is_sampled(UNSAMPLED)
        assert not is_sampled("")

    def test_text_and_numbers(self) -> None:
        assert parse_traceparent(A) == (int("a" * 32, 16), int("1" * 16, 16), 1)
        assert tracing.format_traceparent(*parse_traceparent(B)) == B  # type: ignore[misc]

    @pytest.mark.parametrize(
        "wrong",
        ["", "x", A[:-1], A.replace("a", "g"), "ff" + A[2:], "00-" + "0" * 32 + A[35:], A[:36] + "0" * 16 + "-01"],
    )
    def test_anything_else_is_none(self, wrong: str) -> None:
        assert parse_traceparent(wrong) is None

    def test_a_later_version_may_say_more(self) -> None:
        assert parse_traceparent("01" + A[2:] + "-more") is not None


class TestGathered:
    def test_the_first_sampled_context_is_the_parent_and_the_others_are_links(self) -> None:
        assert gathered(["", UNSAMPLED, A, B, A]) == (A, [B])

    def test_nothing_sampled_has_no_parent(self) -> None:
        assert gathered(["", UNSAMPLED]) == ("", [])

    def test_links_are_bounded(self) -> None:
        many = [tracing.format_traceparent(n, n, 1) for n in range(1, 1_000)]
        assert len(gathered(many)[1]) == tracing.MAX_LINKS


class TestSampler:
    def test_parents_decide_where_the_name_says_so(self) -> None:
        assert Sampler("parentbased_traceidratio", 0.0).wants(1, A)
        assert not Sampler("parentbased_always_on", 1.0).wants(1, UNSAMPLED)
        assert Sampler("always_on", 0.0).wants(1, UNSAMPLED)
        assert not Sampler("always_off", 1.0).wants(1, A)

    def test_a_ratio_is_the_share_of_trace_ids(self) -> None:
        half = Sampler("traceidratio", 0.5)
        assert half.wants(2**63 - 1, "")
        assert not half.wants(2**63, "")
        assert half.wants(2**100, "")

    @pytest.mark.parametrize(("name", "ratio"), [("sometimes", 1.0), ("traceidratio", 1.5), ("traceidratio", -1.0)])
    def test_what_is_none_is_refused(self, name: str, ratio: float) -> None:
        with pytest.raises(errors.ConfigError):
            Sampler(name, ratio)


def test_a_client_without_tracing_loads_no_opentelemetry() -> None:
    code = (
        "import sys, oncelog, oncelog.sync, oncelog.client.client, oncelog.link.grpc_transport;"
        "client = oncelog.sync.Client('127.0.0.1:1');"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
