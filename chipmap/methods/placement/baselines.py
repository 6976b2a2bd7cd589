"""The heuristics that others use, each as a method of its own: what a search must beat.

A method has one or more placements, each decoded by the upward rank and by ready times, and ends with the best. A
placement that doesn't fit isn't passed over: a note says which device overflows, when, by how much, and with what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from chipmap.heuristics.placement.published import metis
from chipmap.heuristics.placement.published.cpop import cpop
from chipmap.heuristics.placement.simulation.memory import excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.starts import etf, human
from chipmap.heuristics.placement.starts import heft as starts
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray
from chipmap.learned import needs
from chipmap.methods.chain import Link, Turn
from chipmap.methods.placement.chain import BOUND, Method, follow_chain
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.offload import keeping
from chipmap.result import Termination
from chipmap.run import Run

#: Gives (name, devices) of each placement of a method.
Placements = Callable[[ChainState, Turn], Iterator[tuple[str, IntArray]]]
#: The rules by which a placement is decoded: a name, and whether keys are ready times.
RULES = (("upward rank", False), ("ready times", True))


class Refused(NamedTuple):
    """A placement that isn't valid: its ``name``, ``devices`` and the rule with the fewest bytes too many."""

    name: str
    devices: IntArray
    fifo: bool


def of_human(state: ChainState, turn: Turn) -> Iterator[tuple[str, IntArray]]:
    """Blocks of layers of equal time or bytes, and layers in turn."""
    made = human.layers(state.problem)
    for kind in human.SPLITS:
        yield f"human, {kind}", human.split(state.problem, kind, made)


def of_metis(state: ChainState, turn: Turn) -> Iterator[tuple[str, IntArray]]:
    """METIS with parts of equal time, and of equal bytes."""
    for kind in metis.WEIGHTS:
        try:
            yield f"metis, {kind}", metis.partition(state.problem, kind, turn.run.options.seed, turn.deadline)
        except metis.MetisError as error:
            turn.run.note("left out", f"metis, {kind}: {error}")


def of_one_device(state: ChainState, turn: Turn) -> Iterator[tuple[str, IntArray]]:
    """Everything on one device, for each that allows it."""
    yield from state.singles()
    for d in range(state.problem.devices):
        for what in starts.kept_off(state.problem, d):
            turn.run.note("left out", f"one device: {state.problem.device_names[d]!r} can't run {what!r}, or must not")


def of_policy(state: ChainState, turn: Turn) -> Iterator[tuple[str, IntArray]]:
    """Human splits, the best one of these and METIS's, then what a learning policy draws round it."""
    from chipmap.learned.placement.search import search

    options = turn.run.options
    for devices in search(state.problem, options.native, options.seed, turn.deadline):
        yield "learned policy", devices


def _baseline(state: ChainState, turn: Turn, placements: Placements) -> None:
    """Hand over the valid placements by both rules, then say what is wrong with the others."""
    refused: list[Refused] = []
    for name, devices in placements(state, turn):
        if not state.problem.timed:
            found = state.problem.solution(devices)
            _judge(turn.run, name, found)
        else:
            refused += _decode(state, turn, name, devices)
        turn.deadline.check()
    for name, devices, fifo in refused:
        turn.deadline.check()
        simulate(state.tables, devices, state.key, fifo, state.none, NEVER, state.work)
        _judge(turn.run, name, schedule(state.problem, devices, state.work))


def _decode(state: ChainState, turn: Turn, name: str, devices: IntArray) -> Iterator[Refused]:
    """Simulate a placement by both rules and hand over the better one; yield it if neither is valid."""
    best: tuple[int, int, str, bool] | None = None
    for rule, fifo in RULES:
        step = int(simulate(state.tables, devices, state.key, fifo, state.none, NEVER, state.work))
        if step < 0:
            u, v = state.problem.without_route(devices) or (0, 0)
            (a, b), names = (state.problem.device_names[d] for d in devices[[u, v]].tolist()), state.problem.names
            what = f"{names[v]!r} reads {names[u]!r}, but there is no route from {a!r} to {b!r}"
            turn.run.note("left out", f"{name} is no placement: C3 {what}")
            return
        over = int(excess(state.tables, state.bytes, devices, state.work))
        if best is None or (over, step) < best[:2]:
            best = over, step, rule, fifo
    assert best is not None
    over, step, rule, fifo = best
    if over:
        yield Refused(f"{name} ({rule}, {step / 1e6:.3f} ms)", devices, fifo)
    elif turn.run.upper is None or step < turn.run.upper:
        simulate(state.tables, devices, state.key, fifo, state.none, NEVER, state.work)
        turn.solution(schedule(state.problem, devices, state.work), f"{name} ({rule})")


def _judge(run: Run, name: str, solution: PlacementSolution) -> None:
    """Hand over a solution if it is valid; else a note says in the checker's words what is wrong."""
    certificate = run.check(run.instance, solution)
    if certificate.feasible:
        run.solution(solution, name)
        return
    first, more = certificate.violations[0], len(certificate.violations) - 1
    also = f" (and {more} more)" if more else ""
    run.note("left out", f"{name} is no placement: {first.label} {first.message}{also}")


def _method(placements: Placements, required: Callable[[], object] = lambda: None) -> Method:
    """The method whose placements these are; ``required`` raises an error where an extra lacks."""

    def method(instance: PlacementInstance, run: Run) -> Termination:
        required()
        work = Link("baseline", 1.0, lambda state, turn: _baseline(state, turn, placements))
        return follow_chain(instance, run, (BOUND, work))

    return keeping(method)


def _of_one(name: str, devices: Callable[[ChainState, Turn], IntArray]) -> Method:
    """The method with a single placement."""
    return _method(lambda state, turn: iter([(name, devices(state, turn))]))


one_device, human_splits = _method(of_one_device), _method(of_human)
metis_parts = _method(of_metis, metis.require)
heft = _of_one("heft", lambda state, turn: starts.heft(state.problem, state.tables))
heft_on_units = _of_one("heft-units", lambda state, turn: heft_units(state.problem, state.tables))
etf_alone = _of_one("etf", lambda state, turn: etf.etf(state.problem, state.tables, turn.deadline))
m_etf = _of_one("m-etf", lambda state, turn: etf.m_etf(state.problem, state.tables, turn.deadline))
critical_path = _of_one("cpop", lambda state, turn: cpop(state.problem, state.tables))
at_random = _of_one("random", lambda state, turn: starts.at_random(state.problem, turn.run.options.seed))
#: A policy that learns by PPO while it draws (:mod:`chipmap.learned.placement`); extra ``learned``. It draws ``--native
#: samples=N`` placements, 400 unless told; ``--native learn=false`` leaves it as it begins: drawn round the best human
#: split or METIS partition.
policy = _method(of_policy, needs.require)
