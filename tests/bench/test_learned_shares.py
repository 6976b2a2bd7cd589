"""Caps of links learned from traces, on traces written down here."""

from __future__ import annotations

import math

import pytest

from benchmarks.learned_shares import HELD_OUT, Trace, fits, learned, predicted
from benchmarks.link_shares import INSTANCES, LEAST, Find, Piece, best

#: A start finds at once, a link finds nothing in two seconds, a search finds until time is up.
RUN = [
    Piece("start", 1.0, (Find(0.5, 100.0, 80.0),)),
    Piece("idle", 2.0, ()),
    Piece("search", 7.0, (Find(1.0, 90.0, 0.0), Find(6.99, 85.0, 0.0))),
]
TRACE = Trace("toy", 10.0, 10.0, RUN)


def test_caps_are_the_longest_times_to_a_last_find() -> None:
    slower = Trace("slower", 20.0, 10.0, [Piece("start", 2.0, (Find(1.5, 100.0, 80.0),)), Piece("search", 8.0, ())])
    caps = learned([TRACE, slower], 10.0, "caps", 2.0)
    assert caps == {"start": pytest.approx(3.02), "idle": LEAST, "search": math.inf}
    assert learned([TRACE], 30.0, "by size", 2.0)["start"] == pytest.approx(3.02)
    assert learned([TRACE, slower], 18.0, "nearest", 2.0)["start"] == pytest.approx(3.02)
    assert learned([TRACE, slower], 10.0, "idle", 1.0) == {"idle": LEAST}


def test_what_a_trace_predicts_is_the_integral_without_the_seconds_left_out() -> None:
    # 0.5 s at 1, then 0.2 until the search's first find, 4 or 2 s after the start's; 0.2 -> 1 - 80 / 90 -> 1 - 80 / 85
    def expected(first: float) -> float:
        return 0.5 + 0.2 * (first - 0.5) + (1 - 80 / 90) * 5.99 + (1 - 80 / 85) * (10 - first - 5.99)

    ratio = predicted(TRACE, {"idle": 0.0})
    assert ratio == pytest.approx(expected(2.0) / expected(4.0))
    assert predicted(TRACE, {}) == 1.0
    assert best(RUN, 10.0, False)[0] / expected(4.0) <= ratio


def test_a_trace_is_never_fitted_to_itself() -> None:
    other = Trace("other", 10.0, 10.0, [Piece("start", 10.0, (Find(9.0, 100.0, 80.0),))])
    assert fits([TRACE, other])["idle", 1.0] == [1.0, 1.0]  # the other one has no idle link


def test_no_held_out_instance_was_learned_from() -> None:
    def network(name: str) -> str:
        """Family and network, scenario or wafer."""
        family, _, rest = name.partition("/")
        return "/".join((family, *rest.split("-")[: 2 if rest.startswith(("scar", "ispd")) else 1]))

    assert not {network(name) for name in HELD_OUT} & {network(name) for name in INSTANCES}
