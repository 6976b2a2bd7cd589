"""The local search as a method (``ring/local``) and as a link of the chain ``ring/auto``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.variants import without
from chipmap.methods.chain import Turn
from chipmap.methods.ring.programs import CUTS, from_best
from chipmap.methods.ring.state import RingChainState
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.local_search.search import LocalSearch

SOURCE, LEVELS = "local search", "local search in levels"
#: The chain's part: the share of the time that is left, and how often the moves of a try may be doubled.
SHARE, CHAIN_DOUBLINGS = 0.4, 3
#: Operations from which on the chain looks for mappings in levels, in the mode ``sum`` or where cuts of prefixes are
#: the best bound: elsewhere single moves reach more in the same time.
MANY_OPERATIONS = 500
#: Shares of that: when the search in levels begins, and what it may take of the time left then.
BEFORE, IN_LEVELS = 0.2, 0.7


def local(instance: RingInstance, run: Run) -> Termination:
    """Local search of the run's best mapping (without one: greedy's), until it stands still or the time is up."""
    return run.attempt(lambda: _search(from_best(instance, run), run.deadline))


def improve(state: RingChainState, turn: Turn) -> None:
    """A link of the chain: local search of the incumbent for a while, once."""
    if not state.searched:
        state.searched = True
        limit = turn.deadline if state.run.options.deterministic else turn.deadline.share(SHARE)
        lower, problem = state.run.lower, state.problem
        dear = problem.cost_mode == "sum" or (lower is not None and lower.source == CUTS)
        _search(state, limit, CHAIN_DOUBLINGS, dear and int(problem.computing.sum()) >= MANY_OPERATIONS)


def _search(state: RingChainState, deadline: Deadline, doublings: int | None = None, levels: bool = True) -> None:
    """From the run's best mapping, with a first one where there is none; ``levels``: by mappings in levels as well."""
    from chipmap.heuristics.ring.local_search.search import DOUBLINGS, LocalSearch

    run = state.run
    if not state.problem.computing.any():
        return
    try:
        search = LocalSearch(state.problem)
    except ValueError as error:
        run.note("left out", f"no local search: {error}")
        return
    if run.best is None and state.ideals is None:  # where all ideals are listed, the exact program tells
        _first(state, search, deadline)
    if run.best is None:
        return
    doublings = DOUBLINGS if doublings is None else doublings
    before = deadline.share(BEFORE) if levels else deadline
    _moves(state, search, before, doublings)
    if not levels:
        return
    value = run.upper
    _in_levels(state, search, deadline.share(IN_LEVELS))
    if run.upper != value or not before.keep_going():
        _moves(state, search, deadline, doublings)


def _moves(state: RingChainState, search: LocalSearch, deadline: Deadline, doublings: int) -> None:
    """Local search of the incumbent."""
    run = state.run
    assert run.best is not None
    chips = np.array(state.contraction.lower(run.best.solution).chips, dtype=np.int64)  # type: ignore[arg-type]
    search.improve(chips, _taken(state, SOURCE), state.lower, run.options.seed, deadline, doublings)
    run.checkpoint()


def _in_levels(state: RingChainState, search: LocalSearch, deadline: Deadline) -> None:
    """The search of mappings in levels that are better than the incumbent."""
    from chipmap.heuristics.ring.local_search.levels import LevelSearch

    run = state.run
    assert run.upper is not None
    if not state.problem.has("C3"):
        return
    try:
        levels = LevelSearch(search)
    except ValueError:
        return
    levels.improve(run.upper, _taken(state, LEVELS), state.lower, run.options.seed, deadline)
    run.checkpoint()


def _taken(state: RingChainState, source: str) -> Callable[[tuple[int, ...]], bool]:
    """Reports a mapping; whether it counts."""

    def take(found: tuple[int, ...]) -> bool:
        accepted = state.report(found, source)
        state.run.checkpoint()
        return accepted

    return take


def _first(state: RingChainState, search: LocalSearch, deadline: Deadline) -> None:
    """A first mapping, from greedy's without C4."""
    from chipmap.heuristics.ring.greedy import greedy as fill

    start = fill(ring_problem(without(state.contraction.instance, "C4")), deadline)
    found = search.first(start, state.run.options.seed, deadline) if start is not None else None
    if found is not None:
        state.report(found, SOURCE)
    state.run.checkpoint()
