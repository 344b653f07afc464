"""The worst pairs of group and topic are chosen, whatever order they come in, and nothing is left out of the sum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_coordinator.core.offsets.lag_series import Pair, PairLag, chosen, others

LAGS = st.dictionaries(
    st.builds(Pair, st.sampled_from("abcdef"), st.sampled_from("tu")),
    st.builds(PairLag, st.booleans(), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)),
)


def lag(total: int, behind_ms: int = 0) -> PairLag:
    return PairLag(True, total, total, behind_ms)


def test_time_comes_before_offsets_and_offsets_before_names() -> None:
    lags = {Pair("c", "t"): lag(9), Pair("b", "t"): lag(1, 5), Pair("d", "t"): lag(0), Pair("a", "t"): lag(0)}
    for most, groups in enumerate(["", "b", "bc", "abc", "abcd", "abcd"]):
        assert {pair.group for pair in chosen(lags, most)} == set(groups)


@given(LAGS, st.integers(0, 14))
def test_what_has_no_series_is_behind_by_no_more_time_and_is_in_the_sum(lags: dict[Pair, PairLag], most: int) -> None:
    kept = chosen(lags, most)
    assert len(kept) == min(most, len(lags))
    assert kept == chosen(dict(reversed(lags.items())), most), "the order that they come in does not count"
    rest = others(lags, kept)
    left = [lag for pair, lag in lags.items() if pair not in kept and lag.is_known]
    assert rest.is_known == bool(left)
    assert (rest.total, rest.worst) == (sum(lag.total for lag in left), max((lag.worst for lag in left), default=0))
    assert all(rest.behind_ms <= lags[pair].behind_ms for pair in kept)
