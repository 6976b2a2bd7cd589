"""The methods of family ``ring`` that rest on programs over ideals, and the bounds that need no model.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import TooManyIdealsError
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.state import RingChainState
from chipmap.methods.ring.trace_order import telling
from chipmap.records import InputError
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.programs.program import ProgramResult, Rule

#: Topological orders that are sliced for a first incumbent, and for each of the rounds on wide graphs.
ORDERS = 16
#: Operations from which the greedy baseline tells the first mapping that it finds as well.
LARGE = 5_000
#: Bits of all prefixes that are sliced: those of fewer orders where the graph is large (16 up to 11,000 operations).
PREFIX_BITS = 2**31
#: Cuts of prefixes: the name of their bounds, and nodes of branch and bound.
CUTS, CUT_NODES = "prefix cuts", 20_000
#: Programs of one block in ``ring/bounds``: seconds at most, as each may take long where no time limit is given.
BLOCK_SECONDS = 60.0


def greedy(instance: RingInstance, run: Run) -> Termination:
    """The greedy baseline (:mod:`chipmap.heuristics.ring.greedy`); needs numpy only."""
    from chipmap.heuristics.ring.greedy import greedy as fill
    from chipmap.instances.ring.contraction import contract, lift

    contraction = contract(instance) if instance.together else None
    problem = ring_problem(instance if contraction is None else contraction.instance)

    def tell(chips: tuple[int, ...]) -> None:
        if contraction is not None:
            found = contraction.lift(RingSolution(chips=chips))
        else:
            found = lift(instance, {v: c for v, c in enumerate(chips) if c >= 0})
        run.solution(telling(run, instance, found), "greedy")

    large = problem.n >= LARGE  # others are through before a first mapping is of use
    chips = fill(problem, run.deadline, tell if large else None)
    if chips is not None:
        tell(chips)
    return run.terminate()


def slicing(instance: RingInstance, run: Run) -> Termination:
    """Exact slicing of topological orders under the path rule: an incumbent, no bound."""
    return run.attempt(
        lambda: slice_some(RingChainState(instance, run), run.options.seed, run.deadline), TooManyIdealsError
    )


def free(instance: RingInstance, run: Run) -> Termination:
    """The program without C3: a lower bound (the optimum where C3 is not in force)."""
    return run.attempt(lambda: _program(RingChainState(instance, run), "free"), TooManyIdealsError)


def n1(instance: RingInstance, run: Run) -> Termination:
    """The program with the necessary part of C3: a lower bound."""
    return run.attempt(lambda: _program(RingChainState(instance, run), "n1"), TooManyIdealsError)


def path(instance: RingInstance, run: Run) -> Termination:
    """The program with the sufficient part of C3: a mapping, no bound."""
    return run.attempt(lambda: _program(RingChainState(instance, run), "path"), TooManyIdealsError)


def exact(instance: RingInstance, run: Run) -> Termination:
    """The program with C3 in full: the optimum, with its proof."""

    def work() -> None:
        state = RingChainState(instance, run)
        simple_bounds(state)
        slice_some(state, run.options.seed, run.deadline)
        solve_exactly(state)

    return run.attempt(work, TooManyIdealsError)


def bounds(instance: RingInstance, run: Run) -> Termination:
    """Every lower bound of the page that applies, each under its own name; no solution is looked for."""

    from chipmap.heuristics.ring.bounds.spectral import spectral_bound
    from chipmap.methods.ring.block_steps import block_steps

    def work() -> None:
        """Each bound in turn; a graph with too many ideals has none of the programs'."""
        state = RingChainState(instance, run)
        simple_bounds(state)
        window_bound(state)
        spectral_bound(state.problem, run.deadline, lambda bound: run.bound(bound, "eigenvalues"))
        if state.problem.has("C1"):
            prefix_cuts(state, CUT_NODES, run.deadline)
            patient = run.options.deterministic
            block_steps(state, run.deadline if patient else run.deadline.within(BLOCK_SECONDS), patient)
        try:
            for rule in ("free", "n1"):
                run.checkpoint()
                result = state.programs.solve(rule, state.list_ideals(), None, run.deadline)
                state.proved(result, None, f"program {rule}")
        except (TooManyIdealsError, InputError) as error:
            run.note("left out", f"no program over ideals: {getattr(error, 'what', error)}")

    return run.attempt(work, TooManyIdealsError)


def from_best(instance: RingInstance, run: Run) -> RingChainState:
    """What searches round a mapping begin with: the run's best one, or greedy's, and the bounds that take no search."""
    if run.best is None:
        greedy(instance, run)
    state = RingChainState(instance, run)
    simple_bounds(state)
    run.checkpoint()
    return state


def simple_bounds(state: RingChainState) -> None:
    """Tell the bounds that take no search: average, largest operation, skip, packing; or that no mapping is valid."""
    from chipmap.heuristics.ring.bounds.simple import all_bounds
    from chipmap.methods.ring.infeasibility import under_a_skip

    graph = flow_graph(state.problem)
    for name, value in all_bounds(state.problem, graph).items():
        if value > 0 or name == "average":  # no flow with operations between its ends, few operations: nothing is said
            state.run.bound(value, name)
    if reasons := under_a_skip(state.problem, graph):
        state.run.infeasible(*reasons)
        state.run.checkpoint()


def window_bound(state: RingChainState) -> None:
    """The least T that leaves every operation a station window, by bisection."""
    from chipmap.instances.ring.station_windows import least_target

    if not state.problem.has("C1"):
        return
    low = state.lower
    high = state.run.upper if state.run.upper is not None else max(low, state.problem.total_ticks)
    state.run.bound(least_target(state.problem, low, high, state.run.deadline), "station windows")


def prefix_cuts(state: RingChainState, nodes: int, deadline: Deadline) -> None:
    """Cuts of prefixes up to the incumbent's value, with so many nodes (more than what was spent before)."""
    from chipmap.heuristics.ring.bounds.cut_profile import CutProfile

    run, problem = state.run, state.problem
    try:
        state.cut_profile = profile = state.cut_profile or CutProfile(problem, flow_graph(problem))
    except ValueError:
        return
    if run.best is not None:
        profile.know(np.array(state.contraction.lower(run.best.solution).chips, dtype=np.int64))  # type: ignore[arg-type]
    high = run.upper if run.upper is not None else problem.most_ticks
    profile.bound(state.lower, high, nodes, deadline, lambda bound: run.bound(bound, CUTS))


def slice_some(state: RingChainState, seed: int, deadline: Deadline) -> None:
    """Slice some orders of the operations into chips, and offer the mappings."""
    from chipmap.heuristics.ring.programs.slicing import slice_orders

    count = max(1, min(ORDERS, PREFIX_BITS // max(1, state.problem.n) ** 2))
    state.best(lambda: slice_orders(state.programs, state.below, count, seed, deadline), "slicing")
    state.sliced = True


def _program(state: RingChainState, rule: Rule) -> None:
    """One program over all ideals; its value is a bound where the rule is necessary (or C3 is not in force)."""
    result = solve_rule(state, rule, None)
    if rule != "path" or not state.problem.has("C3"):
        state.proved(result, None, f"program {rule}")


def solve_rule(state: RingChainState, rule: Rule, upper: int | None) -> ProgramResult:
    """One program over all ideals, and its mapping reported."""
    bounds = rule != "path" or not state.problem.has("C3")
    solve = state.programs.solve
    return state.best(lambda: solve(rule, state.list_ideals(), upper, state.run.deadline), f"program {rule}", bounds)


def solve_exactly(state: RingChainState, state_limit: int = 1_000_000) -> None:
    """The exact program at growing limits: from the bound upwards, so that few pairs of ideals are looked at.

    Without C3 the program ``free`` is exact.
    """
    from chipmap.heuristics.ring.programs.triangle import TooManyStatesError, solve_exact

    run = state.run
    if not state.problem.has("C3"):
        _program(state, "free")
        return
    if not state.problem.has("C2") and any(chips is not None for chips in state.problem.allowed):
        run.note("left out", "no exact program: pins without C2 may leave chips empty")
        return
    try:
        for upper in _limits(state.lower, state.below, state.problem):
            program = partial(solve_exact, state.programs, state.list_ideals(), upper, run.deadline, state_limit)
            result = state.best(program, "exact program", bounds=True)
            if result.value is not None:
                run.bound(result.value, "exact program")
                return
            run.bound(upper + 1, "exact program")
            run.checkpoint()
        if run.best is None:
            state.proved(result, None, "exact program")
    except TooManyStatesError as error:
        run.note("left out", f"the exact program stopped: {error}")


def _limits(lower: int, below: int | None, problem: RingProblem) -> list[int]:
    """Growing limits from the lower bound to just below the incumbent (or to what no mapping exceeds)."""
    below = problem.most_ticks if below is None else below
    span = below - lower
    return sorted({lower + span * share // 64 for share in (0, 1, 4, 16, 64)}) if span >= 0 else []
