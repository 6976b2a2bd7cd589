"""Which rounds an annealing consists of, as the page of methods says."""

from __future__ import annotations

import pytest

from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement import rounds as link
from chipmap.methods.placement import search
from chipmap.methods.placement.chain_state import ChainState, Placed
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

INSTANCE = training_step("rnnlm", {"layers": 2, "steps": 4, "hidden": 64, "batch": 8, "vocabulary": 100}, devices=2)
#: (what a round begins with, whether it runs schedules backwards, its heat, its share of the time).
Round = tuple[Placed, bool, float, float]


def made(
    plan: link.Plan,
    ends: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    turning: bool = False,
    other: float | None = None,
) -> tuple[ChainState, list[Round], list[int]]:
    """The rounds of a plan whose first ones end with ``ends``, and before how many rounds pieces were taken over.

    There may be a start of ``other`` kind, whose step is so many times that of the best one.
    """
    state, found, relinked = ChainState(placement_problem(INSTANCE)), list[Round](), list[int]()
    state.evaluate_and_keep(heft_units(state.problem, state.tables))
    over, step, devices, key = state.turned_starts["start"]
    if other is not None:
        state.turned_starts["partition"] = over, int(step * other), devices, key

    class Told(link._Search):
        """A search that only tells its rounds."""

        def __call__(self, begin: Placed, turning: bool, heat: float, part: float) -> Placed:
            self.planned += part
            found.append((begin, turning, heat, part))
            return *(ends[len(found) - 1] if len(found) <= len(ends) else (0, 0)), devices, key

    monkeypatch.setattr(link, "_Search", Told)
    monkeypatch.setattr(link, "_relink", lambda state, turn, ends: relinked.append(len(ends)))
    run = Run(INSTANCE, SolveOptions(threads=1), check)
    link.rounds(state, Turn(run, run.deadline), 0, plan, turning)
    return state, found, relinked


@pytest.mark.parametrize(
    ("ends", "ways"),
    [
        # the second one, which runs schedules backwards, ends 2% better, and so do all later ones
        ([(0, 10_200), (0, 10_000), (0, 10_300), (0, 10_300), (0, 10_300)], [False, True, True, True, True]),
        # within 1%: in turn
        ([(0, 10_050), (0, 10_000), (0, 10_300), (0, 10_300), (0, 10_300)], [False, True, False, True, False]),
        # within 1% until the third one, which is far better
        ([(0, 10_050), (0, 10_000), (0, 9_000), (0, 10_000), (0, 10_000)], [False, True, False, False, False]),
        # fewer bytes too many count before time
        ([(0, 20_000), (1, 10_000), (0, 20_000), (0, 20_000), (0, 20_000)], [False, True, False, False, False]),
    ],
)
def test_the_first_rounds_go_the_better_way(
    ends: list[tuple[int, int]], ways: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All begin from the best start by keys of their kind. A far worse one of another kind makes no difference."""
    for other in (None, 1.2):
        state, found, relinked = made(link.SEVERAL, ends, monkeypatch, other=other)
        assert [turning for _, turning, _, _ in found[:5]] == ways
        for begin, turning, heat, part in found[:5]:
            assert begin is (state.turned_starts["start"] if turning else state.ranked)
            assert (heat, part) == (1.0, 1 / 12)
        assert relinked == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("ends", "begins"),
    [
        # the start of another kind ends 2% better
        ([(0, 10_200), (0, 10_300), (0, 10_000)], "ranked start partition partition partition"),
        # the second one does
        ([(0, 10_200), (0, 10_000), (0, 10_300)], "ranked start partition start start"),
        # all end alike: in turn
        ([(0, 10_000), (0, 10_050), (0, 10_080), (0, 10_000), (0, 10_000)], "ranked start partition ranked start"),
    ],
)
def test_a_near_start_of_another_kind_has_a_first_round(
    ends: list[tuple[int, int]], begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs schedules backwards, and the rounds after it begin where the best of the three did."""
    ends = ends + [(0, 20_000)] * (5 - len(ends))
    state, found, _ = made(link.SEVERAL, ends, monkeypatch, other=1.04)
    names = {id(one): name for name, one in state.turned_starts.items()}
    assert [names[id(begin)] if turning else "ranked" for begin, turning, *_ in found[:5]] == begins.split()
    assert all(turning or begin is state.ranked for begin, turning, *_ in found[:5])


def test_the_later_rounds_share_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go on from the best, the way that it was found; so do all rounds from a plan of a smaller graph."""
    ends = [(0, 1)] * 5
    for plan, first in ((link.SEVERAL, 5), (link.TWO, 2), (link.CARRIED, 0)):
        with monkeypatch.context() as patch:
            state, found, relinked = made(plan, ends[:first], patch)
        later = found[first:]
        assert len(relinked) == (len(later) if plan is link.SEVERAL else 0)
        assert all(begin is state.best and turning == state.turning for begin, turning, _, _ in later)
        assert [heat for _, _, heat, _ in later] == list(plan.later)
        assert all(part == pytest.approx((1 - first * plan.share) / len(later)) for *_, part in later)
        assert sum(part for *_, part in found) == pytest.approx(1.0)


def test_the_other_lane_begins_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found, _ = made(link.TWO, [(0, 1), (0, 1)], monkeypatch, turning=True)
    assert [turning for _, turning, _, _ in found[:2]] == [True, False]


@pytest.mark.parametrize(
    ("seconds", "small", "plan"),
    [(None, 0, link.SEVERAL), (60.0, 0, link.SEVERAL), (5.0, 0, link.TWO), (60.0, 10**6, link.TWO)],
)
def test_short_searches_begin_with_two_rounds(
    seconds: float | None, small: int, plan: link.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do those of small instances, where CP-SAT follows; a plan of a smaller graph has rounds of its own."""
    state, plans = ChainState(placement_problem(INSTANCE)), list[link.Plan]()
    monkeypatch.setattr(search, "SMALL", small)
    monkeypatch.setattr(search, "rounds", lambda state, turn, seed, plan, turning: plans.append(plan))
    run = Run(INSTANCE, SolveOptions(threads=1, time_limit=seconds), check)
    search.search(state, Turn(run, run.deadline))
    state.carried = True
    search.search(state, Turn(run, run.deadline))
    assert plans == [plan, link.CARRIED]
