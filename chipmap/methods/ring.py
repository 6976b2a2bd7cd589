"""The methods of family ``ring`` that rest on programs over ideals, and the chain ``ring/auto``.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes. All work on the lossless contraction and lift what they find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chipmap.heuristics.ring.ideals import IdealFamily, TooManyIdealsError
from chipmap.instances.ring.costs import RingProblem, ring_problem
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.records import InputError
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.program import ProgramResult, Programs, Rule
    from chipmap.instances.ring.contraction import Contraction

#: Ideals that the programs list before they give a graph up as too wide.
IDEAL_LIMIT = 200_000
#: Topological orders that are sliced for a first incumbent, and for each of the rounds on wide graphs.
ORDERS = 16


class Work:
    """A run on one instance: its contraction, its programs and ideals (made when first asked for), its reports.

    ``sliced`` says that orders have been sliced, so that the programs apply.
    """

    def __init__(self, instance: RingInstance, run: Run) -> None:
        from chipmap.instances.ring.contraction import contract

        self.run = run
        self.contraction: Contraction = contract(instance)
        self.problem: RingProblem = ring_problem(self.contraction.instance)
        self._programs: Programs | None = None
        self._ideals: IdealFamily | None = None
        self.sliced = False

    @property
    def programs(self) -> Programs:
        """The programs of the contracted problem. Raises :class:`InputError` where they don't apply."""
        if self._programs is None:
            from chipmap.heuristics.ring.program import Programs

            try:
                self._programs = Programs(self.problem)
            except ValueError as error:
                remedy = "Methods for every instance: ring/auto, ring/mip, ring/cpsat."
                raise InputError(str(error), self.contraction.original.name, remedy) from None
        return self._programs

    @property
    def ideals(self) -> IdealFamily:
        """All ideals. Raises TooManyIdealsError."""
        if self._ideals is None:
            from chipmap.heuristics.ring.ideals import all_ideals

            self._ideals = all_ideals(self.programs.graph, IDEAL_LIMIT)
            self.run.notes.append(f"{self.problem.n} operations after contraction, {len(self._ideals)} ideals")
        return self._ideals

    @property
    def below(self) -> int | None:
        """The value that would improve on the incumbent."""
        return None if self.run.upper is None else self.run.upper - 1

    def found(self, result: ProgramResult, source: str) -> None:
        """Report a program's mapping, if it has one."""
        if result.chips is not None:
            solution = RingSolution(instance=self.contraction.instance.name, chips=result.chips)
            self.run.solution(self.contraction.lift(solution), source, claimed=result.value)

    def proved(self, result: ProgramResult, upper: int | None, source: str) -> None:
        """Report what a program over all ideals proves: its value, or that nothing is as good as ``upper``."""
        if result.value is not None:
            self.run.bound(result.value, source)
        elif upper is not None:
            self.run.bound(upper + 1, source)
        elif not self.run.best:
            self.run.infeasible(*self._clash())

    def _clash(self) -> list[Infeasibility]:
        """Why no chain of ideals exists: memory, if there is one without C4; else what the models say."""
        from chipmap.heuristics.ring.memory import least_sram
        from chipmap.methods.ring_clash import memory, reasons

        known = least_sram(self.programs, self.ideals) if self.problem.has("C4") else None
        if known is not None:
            return [memory(self.problem, *known)]
        return reasons(self.contraction.instance, self.run.remaining)


def greedy(instance: RingInstance, run: Run) -> Termination:
    """The greedy baseline (:mod:`chipmap.heuristics.ring.greedy`); needs numpy only."""
    from chipmap.heuristics.ring.greedy import greedy as fill
    from chipmap.instances.ring.contraction import contract, lift

    if instance.together:
        contraction = contract(instance)
        chips = fill(ring_problem(contraction.instance))
        if chips is not None:
            run.solution(contraction.lift(RingSolution(chips=chips)), "greedy")
    else:
        chips = fill(ring_problem(instance))
        if chips is not None:
            run.solution(lift(instance, {v: c for v, c in enumerate(chips) if c >= 0}), "greedy")
    return run.terminate()


def slicing(instance: RingInstance, run: Run) -> Termination:
    """Exact slicing of topological orders under the path rule: an incumbent, no bound."""
    return run.attempt(lambda: _slice(Work(instance, run), run.options.seed), TooManyIdealsError)


def free(instance: RingInstance, run: Run) -> Termination:
    """The program without C3: a lower bound (the optimum where C3 is not in force)."""
    return run.attempt(lambda: _program(Work(instance, run), "free"), TooManyIdealsError)


def n1(instance: RingInstance, run: Run) -> Termination:
    """The program with the necessary part of C3: a lower bound."""
    return run.attempt(lambda: _program(Work(instance, run), "n1"), TooManyIdealsError)


def path(instance: RingInstance, run: Run) -> Termination:
    """The program with the sufficient part of C3: a mapping, no bound."""
    return run.attempt(lambda: _program(Work(instance, run), "path"), TooManyIdealsError)


def exact(instance: RingInstance, run: Run) -> Termination:
    """The program with C3 in full: the optimum, with its proof."""

    def work() -> None:
        state = Work(instance, run)
        _simple_bounds(state)
        _slice(state, run.options.seed)
        _exact(state)

    return run.attempt(work, TooManyIdealsError)


def bounds(instance: RingInstance, run: Run) -> Termination:
    """Every lower bound of the page that applies, each under its own name; no solution is looked for."""

    def work() -> None:
        state = Work(instance, run)
        _simple_bounds(state)
        _window_bound(state)
        try:
            for rule in ("free", "n1"):
                run.checkpoint()
                state.proved(state.programs.solve(rule, state.ideals, None, run.checkpoint), None, f"program {rule}")
        except (TooManyIdealsError, InputError) as error:
            run.notes.append(f"no program over ideals: {getattr(error, 'what', error)}")

    return run.attempt(work, TooManyIdealsError)


def auto(instance: RingInstance, run: Run) -> Termination:
    """The best chain: greedy, slicing, then programs n1, path and exact over all ideals; CP-SAT where these stop.

    Stops as soon as the gap is closed.
    """
    return run.attempt(lambda: _auto(instance, run), TooManyIdealsError)


def _auto(instance: RingInstance, run: Run) -> None:
    if run.best is None:
        greedy(instance, run)
    state = Work(instance, run)
    try:
        _simple_bounds(state)
        run.checkpoint()
        _slice(state, run.options.seed)
        run.checkpoint()
        _ = state.ideals
    except (TooManyIdealsError, InputError) as error:
        run.notes.append(f"no program over all ideals: {getattr(error, 'what', error)}")
        _by_solver(instance, state)
        return
    upper = run.upper
    result = state.programs.solve("n1", state.ideals, upper, run.checkpoint)
    state.found(result, "program n1")
    state.proved(result, upper, "program n1")
    run.checkpoint()
    state.found(state.programs.solve("path", state.ideals, state.below, run.checkpoint), "program path")
    run.checkpoint()
    _exact(state)
    run.checkpoint()
    _by_solver(instance, state)


def _by_solver(instance: RingInstance, state: Work) -> None:
    """Wide graphs, and problems the programs don't cover: slicing of more orders, then CP-SAT (or the solver named)."""
    from chipmap.methods.ring_models import cpsat, mip

    run = state.run
    if state.sliced:
        _window_bound(state)
        for round_number in range(1, 4):
            run.checkpoint()
            _slice(state, run.options.seed + round_number)
    run.checkpoint()
    by_model = mip if run.options.solver in ("highs", "gurobi") else cpsat
    by_model(instance, run)


def _simple_bounds(state: Work) -> None:
    from chipmap.heuristics.ring.bounds import all_bounds
    from chipmap.heuristics.ring.ideals import flow_graph

    for name, value in all_bounds(state.problem, flow_graph(state.problem)).items():
        state.run.bound(value, name)


def _window_bound(state: Work) -> None:
    """The least T that leaves every operation a station window, by bisection."""
    from chipmap.instances.ring.windows import least_target

    if not state.problem.has("C1"):
        return
    low = state.run.lower.value if state.run.lower else 0
    high = state.run.upper if state.run.upper is not None else max(low, state.problem.total_ticks)
    state.run.bound(least_target(state.problem, low, high, state.run.checkpoint), "station windows")


def _slice(state: Work, seed: int) -> None:
    from chipmap.heuristics.ring.slicing import slice_orders

    state.found(slice_orders(state.programs, state.below, ORDERS, seed), "slicing")
    state.sliced = True


def _program(state: Work, rule: Rule) -> None:
    """One program over all ideals; its value is a bound where the rule is necessary (or C3 is not in force)."""
    result = state.programs.solve(rule, state.ideals, None, state.run.checkpoint)
    state.found(result, f"program {rule}")
    if rule != "path" or not state.problem.has("C3"):
        state.proved(result, None, f"program {rule}")


def _exact(state: Work) -> None:
    """The exact program at growing limits: from the bound upwards, so that few pairs of ideals are looked at.

    Without C3 the program ``free`` is exact.
    """
    from chipmap.heuristics.ring.triangle import TooManyStatesError, solve_exact

    run = state.run
    if not state.problem.has("C3"):
        _program(state, "free")
        return
    pinned = any(chips is not None for chips in state.problem.allowed)
    if pinned and not state.problem.has("C2"):
        run.notes.append("no exact program: pins without C2 may leave chips empty")
        return
    try:
        for upper in _limits(run.lower.value if run.lower else 0, state.below, state.problem):
            result = solve_exact(state.programs, state.ideals, upper, run.checkpoint)
            state.found(result, "exact program")
            if result.value is not None:
                run.bound(result.value, "exact program")
                return
            run.bound(upper + 1, "exact program")
            run.checkpoint()
        if run.best is None:
            state.proved(result, None, "exact program")
    except TooManyStatesError as error:
        run.notes.append(f"the exact program stopped: {error}")


def _limits(lower: int, below: int | None, problem: RingProblem) -> list[int]:
    """Growing limits from the lower bound to just below the incumbent (or to what no mapping exceeds)."""
    if below is None:
        link = sum(storage.ticks for storage in problem.storages)
        below = problem.total_ticks + 2 * link
    span = below - lower
    return sorted({lower + span * share // 64 for share in (0, 1, 4, 16, 64)}) if span >= 0 else []
