"""The methods of family ``ring`` that rest on programs over ideals, and the chain ``ring/auto``.

Every method is a function (instance, run) -> Termination that reports to ``run``; what it found stays there when the
deadline passes. All work on the lossless contraction and lift what they find.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from chipmap.heuristics.ring.programs.ideals import IdealFamily, TooManyIdealsError
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.oracle_cuts import Cuts
from chipmap.records import InputError
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.programs.program import ProgramResult, Programs, Rule
    from chipmap.heuristics.ring.programs.screens import RejectedBlocks
    from chipmap.instances.ring.contraction import Contraction
    from chipmap.methods.ring.station_search import Effort

#: Ideals that the programs list before they give a graph up as too wide.
IDEAL_LIMIT = 200_000
#: With more ideals than that, the station search's first round comes before they are all listed.
FEW_IDEALS = 20_000
#: States that the exact program may have before the station search gets its turn.
FEW_STATES = 50_000
#: Programs whose mappings may break C3.
RELAXATIONS = ("program free", "program n1")
#: Rounds of the station search that come after the windows.
WIDE_ROUNDS = 2
#: Topological orders that are sliced for a first incumbent, and for each of the rounds on wide graphs.
ORDERS = 16


class Work:
    """A run on one instance: its contraction, its programs and ideals (made when first asked for), its reports.

    ``sliced`` says that orders have been sliced, so that the programs apply; ``windowed`` is the value of the incumbent
    whose chip windows have been searched.
    """

    def __init__(self, instance: RingInstance, run: Run) -> None:
        from chipmap.instances.ring.contraction import contract

        self.run = run
        self.contraction: Contraction = contract(instance)
        self.problem: RingProblem = ring_problem(self.contraction.instance)
        self._programs: Programs | None = None
        self._ideals: IdealFamily | None = None
        self.sliced = False
        self.windowed: int | None = None
        self.ideal_limit = IDEAL_LIMIT
        self.cuts = Cuts(run, instance, self.contraction)
        self._rejected: RejectedBlocks | None = None

    @property
    def programs(self) -> Programs:
        """The programs of the contracted problem. Raises :class:`InputError` where they don't apply."""
        if self._programs is None:
            from chipmap.heuristics.ring.programs.program import Programs

            try:
                self._programs = Programs(self.problem)
            except ValueError as error:
                remedy = "Methods for every instance: ring/auto, ring/mip, ring/cpsat."
                raise InputError(str(error), self.contraction.original.name, remedy) from None
            self._rejected = self.cuts.screen(self._programs)
        return self._programs

    @property
    def ideals(self) -> IdealFamily:
        """All ideals. Raises TooManyIdealsError."""
        if self._ideals is None:
            from chipmap.heuristics.ring.programs.ideals import all_ideals

            self._ideals = all_ideals(self.programs.graph, self.ideal_limit)
            self.run.note("size", f"{self.problem.n} operations after contraction, {len(self._ideals)} ideals")
        return self._ideals

    def few_ideals(self) -> bool:
        """Whether there are at most FEW_IDEALS ideals."""
        self.ideal_limit = FEW_IDEALS
        try:
            return len(self.ideals) <= FEW_IDEALS
        except TooManyIdealsError:
            return False
        finally:
            self.ideal_limit = IDEAL_LIMIT

    @property
    def below(self) -> int | None:
        """The value that would improve on the incumbent."""
        return None if self.run.upper is None else self.run.upper - 1

    def best(self, program: Callable[[], ProgramResult], source: str, bounds: bool = False) -> ProgramResult:
        """Run a program, report its mapping; with an oracle, again with its cuts until H accepts or has no cut for it.

        Every round relaxes the problem with C5: its value is a bound where the program's is (``bounds``).
        """
        while True:
            result = program()
            self.found(result, source)
            rejected, before = self._rejected, len(self._rejected) if self._rejected is not None else 0
            self.cuts.update()
            for block in self.cuts.blocks[before:] if rejected is not None else ():
                rejected.add(block)  # type: ignore[union-attr]
            if rejected is None or len(rejected) == before or result.chips is None:
                return result
            if bounds and result.value is not None:
                self.run.bound(result.value, source)
            self.run.checkpoint()

    def found(self, result: ProgramResult, source: str) -> None:
        """Report a program's mapping, if it has one."""
        if result.chips is not None:
            solution = RingSolution(instance=self.contraction.instance.name, chips=result.chips)
            certificate = self.run.solution(self.contraction.lift(solution), source, claimed=result.value)
            if source in RELAXATIONS and {violation.label for violation in certificate.violations} == {"C3"}:
                self.run.rejected.pop()
                note = f"{source} leaves out part of C3: its value is a bound, its mapping breaks C3 and isn't used"
                self.run.note("left out", note)

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
        from chipmap.heuristics.ring.programs.least_memory import fits, least_sram
        from chipmap.methods.ring.infeasibility import memory, reasons

        rejected = self.cuts.reason()
        if rejected and fits(self.programs, self.ideals, "n1", self.problem.sram_bytes):
            return rejected
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
        """Each bound in turn; a graph with too many ideals has none of the programs'."""
        state = Work(instance, run)
        _simple_bounds(state)
        _window_bound(state)
        _cut_bounds(state)
        try:
            for rule in ("free", "n1"):
                run.checkpoint()
                state.proved(state.programs.solve(rule, state.ideals, None, run.deadline), None, f"program {rule}")
        except (TooManyIdealsError, InputError) as error:
            run.note("left out", f"no program over ideals: {getattr(error, 'what', error)}")

    return run.attempt(work, TooManyIdealsError)


def auto(instance: RingInstance, run: Run) -> Termination:
    """The best chain: greedy, slicing, programs n1, path and exact, station search with chip windows; then CP-SAT.

    Stops as soon as the gap is closed.
    """
    return run.attempt(lambda: _auto(instance, run), TooManyIdealsError)


def _auto(instance: RingInstance, run: Run) -> None:
    from chipmap.methods.ring.station_search import ROUNDS, search

    rounds = ROUNDS
    if run.best is None:
        greedy(instance, run)
    state = Work(instance, run)
    try:
        _simple_bounds(state)
        run.checkpoint()
        _slice(state, run.options.seed)
        run.checkpoint()
        if not state.few_ideals():
            search(state, rounds[:1])
            rounds = rounds[1:]
        _ = state.ideals
    except (TooManyIdealsError, InputError) as error:
        run.note("left out", f"no program over all ideals: {getattr(error, 'what', error)}")
        _search(state, rounds)
        _by_solver(instance, state)
        return
    upper = run.upper
    state.proved(_rule(state, "n1", upper), upper, "program n1")
    run.checkpoint()
    _rule(state, "path", state.below)
    run.checkpoint()
    _exact(state, FEW_STATES)
    run.checkpoint()
    _search(state, rounds)
    _exact(state)
    run.checkpoint()
    _by_solver(instance, state)


def _by_solver(instance: RingInstance, state: Work) -> None:
    """Wide graphs, and problems the programs don't cover: slicing of more orders, then CP-SAT (or the solver named)."""
    from chipmap.methods.ring.models import cpsat, mip
    from chipmap.methods.ring.neighbourhoods import refine

    run = state.run
    if state.sliced:
        for round_number in range(1, 4):
            run.checkpoint()
            _slice(state, run.options.seed + round_number)
    run.checkpoint()
    refine(state)
    by_model = mip if run.options.solver in ("highs", "gurobi") else cpsat
    by_model(instance, run)


def _search(state: Work, rounds: tuple[Effort, ...]) -> None:
    """The station search; before its widest rounds the bound by station windows, and chip windows."""
    from chipmap.methods.ring.neighbourhoods import refine
    from chipmap.methods.ring.station_search import search

    search(state, rounds[:-WIDE_ROUNDS])
    if state.sliced:
        _window_bound(state)
        state.run.checkpoint()
    refine(state)
    search(state, rounds[-WIDE_ROUNDS:])


def _simple_bounds(state: Work) -> None:
    from chipmap.heuristics.ring.bounds.simple import all_bounds
    from chipmap.heuristics.ring.programs.ideals import flow_graph

    for name, value in all_bounds(state.problem, flow_graph(state.problem)).items():
        state.run.bound(value, name)


def _cut_bounds(state: Work) -> None:
    """Links' minimum cuts, the bottleneck block, the contracted lattice: by bisection, each on its own."""
    from chipmap.heuristics.ring.bounds.cuts import bottleneck_bound, link_bound
    from chipmap.heuristics.ring.bounds.lattice_bound import contracted_bound
    from chipmap.heuristics.ring.programs.ideals import flow_graph

    problem, run = state.problem, state.run
    if not problem.has("C1"):
        return
    worst = problem.total_ticks + 2 * sum(storage.ticks for storage in problem.storages)
    high = run.upper if run.upper is not None else worst
    run.bound(link_bound(problem, 0, high, run.deadline), "minimum cuts")
    run.bound(bottleneck_bound(problem, 0, high, run.deadline), "bottleneck block")
    graph = flow_graph(problem)
    run.bound(contracted_bound(problem, graph, 0, high, run.deadline), "contracted lattice")


def _window_bound(state: Work) -> None:
    """The least T that leaves every operation a station window, by bisection."""
    from chipmap.instances.ring.station_windows import least_target

    if not state.problem.has("C1"):
        return
    low = state.run.lower.value if state.run.lower else 0
    high = state.run.upper if state.run.upper is not None else max(low, state.problem.total_ticks)
    state.run.bound(least_target(state.problem, low, high, state.run.deadline), "station windows")


def _slice(state: Work, seed: int) -> None:
    from chipmap.heuristics.ring.programs.slicing import slice_orders

    state.best(lambda: slice_orders(state.programs, state.below, ORDERS, seed), "slicing")
    state.sliced = True


def _program(state: Work, rule: Rule) -> None:
    """One program over all ideals; its value is a bound where the rule is necessary (or C3 is not in force)."""
    result = _rule(state, rule, None)
    if rule != "path" or not state.problem.has("C3"):
        state.proved(result, None, f"program {rule}")


def _rule(state: Work, rule: Rule, upper: int | None) -> ProgramResult:
    """One program over all ideals, and its mapping reported."""
    bounds = rule != "path" or not state.problem.has("C3")
    solve = state.programs.solve
    return state.best(lambda: solve(rule, state.ideals, upper, state.run.deadline), f"program {rule}", bounds)


def _exact(state: Work, state_limit: int = 1_000_000) -> None:
    """The exact program at growing limits: from the bound upwards, so that few pairs of ideals are looked at.

    Without C3 the program ``free`` is exact.
    """
    from chipmap.heuristics.ring.programs.triangle import TooManyStatesError

    run = state.run
    if not state.problem.has("C3"):
        _program(state, "free")
        return
    pinned = any(chips is not None for chips in state.problem.allowed)
    if pinned and not state.problem.has("C2"):
        run.note("left out", "no exact program: pins without C2 may leave chips empty")
        return
    try:
        for upper in _limits(run.lower.value if run.lower else 0, state.below, state.problem):
            result = state.best(partial(_up_to, state, upper, state_limit), "exact program", bounds=True)
            if result.value is not None:
                run.bound(result.value, "exact program")
                return
            run.bound(upper + 1, "exact program")
            run.checkpoint()
        if run.best is None:
            state.proved(result, None, "exact program")
    except TooManyStatesError as error:
        run.note("left out", f"the exact program stopped: {error}")


def _up_to(state: Work, upper: int, state_limit: int) -> ProgramResult:
    """The exact program within C1 to C3 and a limit."""
    from chipmap.heuristics.ring.programs.triangle import solve_exact

    return solve_exact(state.programs, state.ideals, upper, state.run.deadline, state_limit)


def _limits(lower: int, below: int | None, problem: RingProblem) -> list[int]:
    """Growing limits from the lower bound to just below the incumbent (or to what no mapping exceeds)."""
    below = problem.most_ticks if below is None else below
    span = below - lower
    return sorted({lower + span * share // 64 for share in (0, 1, 4, 16, 64)}) if span >= 0 else []
