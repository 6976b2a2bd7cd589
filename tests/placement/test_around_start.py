"""Methods near the start: the best placement that is left, never worse than it, valid, and no bound of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pytest

from chipmap.family import Standing
from chipmap.formulations.placement.cpsat import build
from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices
from chipmap.formulations.placement.cpsat_window import ScheduleWindow
from chipmap.formulations.placement.cpsat_window import build as build_window
from chipmap.formulations.placement.narrowing import NearPlacements
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.fixed_order import Schedule
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.kernels import plainly
from chipmap.methods.chain import Turn
from chipmap.methods.placement import around_start, neighbourhoods
from chipmap.methods.placement.chain import auto
from chipmap.methods.placement.chain_state import ChainState
from chipmap.result import Termination
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.candidates import candidates
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import tiny_instance

Method = Callable[[PlacementInstance, Run], Termination]
METHODS: list[tuple[Method, Callable[..., NearPlacements]]] = [
    (around_start.fix, around_start.inner_stay),
    (around_start.proximity, around_start.few_move),
]
IDS = ["fix", "proximity"]
#: What takes no search, and may be told by any method.
PLAIN = {"work", "longest chain"}


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Tiny instances: nothing is worth compiling."""
    with plainly(True, True):
        yield


def started(instance: PlacementInstance, start: PlacementSolution | None) -> Run:
    """A run of one thread that begins with ``start``."""
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    if start is not None:
        run.solution(start, "start")
    return run


def found(run: Run) -> PlacementSolution:
    """A run's best placement."""
    assert run.best is not None and isinstance(run.best.solution, PlacementSolution)
    return run.best.solution


def near_enough(problem: PlacementProblem, near: NearPlacements, solution: PlacementSolution) -> bool:
    """Whether a placement is left, told anew: devices, groups that move, times, order of what stays."""
    devices = problem.devices_of(solution)
    if not all(near.allowed[v, d] for v, d in enumerate(devices.tolist())):
        return False
    moved = sum(devices[group[0]] != near.home[group[0]] for group in problem.groups)
    if near.moves is not None and moved > near.moves:
        return False
    if near.start is None or not problem.timed:
        return True
    start = [solution.start[name] for name in problem.names]
    if near.shift is not None and any(abs(a - b) > near.shift for a, b in zip(start, near.start.tolist(), strict=True)):
        return False
    stays = [v for v in range(problem.operations) if (problem.allowed & near.allowed)[v].sum() == 1]
    stays = [v for v in stays if problem.time[v, devices[v]] > 0] if near.ordered else []
    pairs = ((v, w) for v in stays for w in stays if devices[v] == devices[w] and near.start[v] < near.start[w])
    return all(start[v] < start[w] for v, w in pairs)


@pytest.mark.parametrize(("method", "near"), METHODS, ids=IDS)
def test_the_best_placement_that_is_left(
    method: Method, near: Callable[..., NearPlacements], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against all candidates of tiny instances of both objectives, from random valid starts; no bound of the model.

    One group may move, by any time: candidates begin as early as they can, which times near the start needn't allow."""
    monkeypatch.setattr(around_start, "REACH", 1)
    monkeypatch.setattr(around_start, "SHIFT", 10.0)
    gained = left_out = 0
    for seed in range(60):
        instance = tiny_instance(Random(seed))
        problem = placement_problem(instance)
        judged = [(check(instance, one), one) for one in candidates(instance)]
        valid = [(c.objective, one) for c, one in judged if c.feasible and c.objective is not None]
        if not valid:
            continue
        value, start = Random(seed).choice(valid)
        times = Schedule.of(problem, start).start if problem.timed else None
        around = near(problem, problem.devices_of(start), times)
        best = min(v for v, one in valid if near_enough(problem, around, one))
        run = started(instance, start)
        method(instance, run)
        assert run.upper == best, seed
        assert {bound.source for bound in run.bounds} <= PLAIN and not run.proved_infeasible
        gained += best < value
        left_out += best > min(v for v, _ in valid)
    assert gained >= 5 and left_out >= 3


def chained() -> tuple[PlacementInstance, PlacementSolution]:
    """A graph of 24 operations on three devices, and everything on the first one."""
    instance = random_instance(operations=24, devices=3, edges=0.1, seed=3)
    state = ChainState(placement_problem(instance))
    state.evaluate_and_keep(next(iter(state.singles()))[1])
    return instance, state.decoded()


def test_what_is_left_out_may_hold_the_optimum() -> None:
    """With all on one device ``fix`` can move nothing, and near times ``proximity`` gains less than the chain."""
    instance, start = chained()
    fixed, near, free = (started(instance, start) for _ in range(3))
    around_start.fix(instance, fixed)
    termination = around_start.proximity(instance, near)
    auto(instance, free)
    assert fixed.best is not None and fixed.upper == fixed.best.objective and fixed.best.source == "start"
    assert free.upper is not None and near.upper is not None and fixed.upper is not None
    assert free.upper < near.upper < fixed.upper and termination.reason == "feasible"


def test_a_model_near_a_placement_is_a_restriction_that_holds_it() -> None:
    instance, start = chained()
    problem = placement_problem(instance)
    for _, near in METHODS:
        around = near(problem, problem.devices_of(start), Schedule.of(problem, start).start)
        model = build(instance, PlacementCpChoices(near=around, symmetry=True))
        assert model.standing is Standing.RESTRICTION and model.encode(start) is not None
    assert build(instance).standing is Standing.EXACT


@pytest.mark.parametrize("method", [*(one for one, _ in METHODS), neighbourhoods.windows], ids=[*IDS, "windows"])
def test_without_a_start_the_best_start_begins(method: Method) -> None:
    for objective in ("step_time", "throughput"):
        task = {"objective": objective, "memory": "none"}
        instance = random_instance(operations=8, devices=2, edges=0.3, seed=1, task=task)
        run = started(instance, None)
        method(instance, run)
        assert check(instance, found(run)).feasible
        assert {bound.source for bound in run.bounds} <= PLAIN


def test_tails_are_what_follows_in_this_order() -> None:
    """Of schedules by the decoder: start + p + tail is at most T1, and T1 for a chain of operations from 0 on."""
    for seed in range(40):
        instance = tiny_instance(Random(seed))
        state = ChainState(placement_problem(instance))
        if not state.problem.timed or not state.problem.devices:
            continue
        for _, devices in state.singles():
            state.evaluate_and_keep(devices)
        state.evaluate_and_keep(np.arange(state.problem.operations) % state.problem.devices)
        if state.best is None or state.best[0] > 0:
            continue
        now = Schedule.of(state.problem, state.decoded())
        ends = now.start + now.time + now.tail
        assert now.step == state.best[1] and (ends <= now.step).all()
        assert ((now.start == 0) & (ends == now.step)).any(), seed


def test_a_window_of_everything_has_the_optimum() -> None:
    """Nothing is left as it is: the window's model is the exact one without memory."""
    tried = 0
    for seed in range(40):
        instance = tiny_instance(Random(seed))
        problem = placement_problem(instance)
        if not problem.timed or instance.task.memory != "none" or instance.task.limit_ns is not None:
            continue
        every = [(check(instance, one).objective, one) for one in candidates(instance)]
        judged = [(value, one) for value, one in every if value is not None and check(instance, one).feasible]
        worst, start = max(judged, key=lambda one: one[0])
        best = min(value for value, _ in judged)
        window = ScheduleWindow(Schedule.of(problem, start), np.arange(problem.operations))
        run = started(instance, start)
        if best == worst:
            continue
        tried += 1
        for upper, possible in ((best, True), (best - 1, False)):
            model = build_window(window, upper)
            outcome = neighbourhoods_outcome(run, model)
            assert (outcome is not None) == possible, seed
    assert tried >= 5


def neighbourhoods_outcome(run: Run, model: object) -> object:
    """What CP-SAT finds, decoded; None where it proves that there is nothing."""
    from chipmap.methods.model_solve import solve_within

    outcome = solve_within(run, model, solver="cpsat")  # type: ignore[arg-type]
    if outcome.value_of is None:
        assert outcome.termination.reason == "infeasible"
        return None
    return model.decode(outcome.value_of)  # type: ignore[attr-defined]


def test_windows_gain_and_stay_valid() -> None:
    """From the first start that fits; with memory, which the model leaves out, and with groups."""
    gained = 0
    for seed in range(8):
        memory = 1.4 if seed % 2 else None
        instance = random_instance(operations=20, devices=3, edges=0.1, seed=seed, together=3, memory=memory)
        state = ChainState(placement_problem(instance))
        for _, devices in state.starts(started(instance, None).deadline):
            state.evaluate_and_keep(devices)
            if state.best is not None and state.best[0] == 0:
                break
        start = state.decoded()
        value = check(instance, start).objective
        run = started(instance, start)
        neighbourhoods.windows(instance, run)
        assert check(instance, found(run)).feasible
        assert run.best is not None and value is not None and run.best.objective <= value
        assert {bound.source for bound in run.bounds} <= PLAIN
        gained += run.best.objective < value
    assert gained >= 5


def test_a_proposal_says_which_window_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the operations that the proposal has elsewhere, of those with critical ones."""
    monkeypatch.setattr(neighbourhoods, "SIZES", (4,))
    instance, start = chained()
    state = ChainState(placement_problem(instance))
    state.evaluate_and_keep(state.problem.devices_of(start))
    turn = Turn(started(instance, start), started(instance, start).deadline)
    plain = neighbourhoods._Search(state, turn, None)
    proposal = plain.now.device.copy()
    proposal[plain.now.order[16:20]] = 1
    guided = neighbourhoods._Search(state, turn, proposal)
    first, other = plain.pick(), guided.pick()
    assert first is not None and other is not None and other == (16, 20) and first != other
    assert plain._critical(first) >= plain._critical(other) > 0
