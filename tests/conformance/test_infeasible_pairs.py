"""Pairs of instances one unit apart, of which brute force from the pages knows that one has a solution and one hasn't.

The full count is ``python -m benchmarks.infeasible``; here is a sample of each family.
"""

from __future__ import annotations

import pytest

from benchmarks.infeasible.__main__ import FAMILIES, judged, pairs
from benchmarks.infeasible.pairs import Pair, Tally, by_candidates, judge_near, judge_tight
from chipmap.result import Infeasibility
from chipmap.run import SolveOptions
from chipmap.solve import solve

#: No limit on time: what a busy machine does must not matter.
OPTIONS = SolveOptions(threads=1)
#: Methods beside these are in the benchmark alone.
METHODS = {
    "ring": ("auto", "mip", "cpsat", "free"),
    "dataflow": ("auto", "mip", "cpsat"),
    "wafer": ("auto", "exact", "mip", "cpsat", "bounds"),
    "multimodel": ("auto", "mip", "cpsat"),
    "placement": ("auto", "mip", "cpsat"),
}
#: Where a sample begins: pairs of which most were wrong at first.
SEEDS = {"ring": 1046, "dataflow": 0, "wafer": 1048, "multimodel": 8, "placement": 4}
COUNT = 2


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_said_of_a_pair_is_true(family: str) -> None:
    """Infeasible where it is, with labels that contradict each other; never one unit on the other side."""
    for pair in pairs(family, COUNT, SEEDS[family]):
        for method in METHODS[family]:
            tally = Tally()
            assert judged(family, pair, method, tally, OPTIONS) == [], (pair.what, method)
            assert tally.proved == 1, (pair.what, method, tally)


def test_wrong_words_are_noticed() -> None:
    """A solution that isn't there, infeasible where there is one, labels that agree, a label that takes no part."""
    (pair,) = pairs("ring", 1)
    good = solve(pair.tight, "ring/mip", OPTIONS, isolate=False)
    assert judge_tight(pair, good, Tally()) == []
    assert judge_tight(pair, solve(pair.near, "ring/mip", OPTIONS, isolate=False), Tally())
    assert judge_near(good, True, Tally())
    made = Pair("made", pair.tight, pair.near, frozenset(("C1", "C2", "C4")), by_candidates([frozenset(("C1", "C4"))]))
    assert made.takes_part("C4") and not made.takes_part("C2")
    for labels, label, wrong in (
        (("C1",), "C1", 0),
        (("C2",), "C2", 1),
        (("C1",), "C4", 1),
        ((), "C4", 0),
        ((), "C2", 1),
    ):
        reason = Infeasibility(label=label, resource="", demand=1, limit=0, unit="", message="", labels=labels)
        result = good.replace(infeasibility=(reason,))
        assert len(judge_tight(made, result, Tally())) == wrong, (labels, label)
